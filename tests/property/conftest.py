"""How hypothesis runs here: no deadline, as a busy machine is not a finding."""

from hypothesis import settings

settings.register_profile("hourhand", deadline=None, print_blob=True)
settings.load_profile("hourhand")
