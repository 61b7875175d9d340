"""How hypothesis runs here: no deadline, as a busy machine is not a finding.

``make check`` asks for the profile ``few``: a tenth of the inputs, so that it takes seconds.
"""

from hypothesis import settings

settings.register_profile("hourhand", deadline=None, print_blob=True)
settings.register_profile("few", settings.get_profile("hourhand"), max_examples=10)
settings.load_profile("hourhand")
