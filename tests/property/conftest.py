"""How hypothesis runs here: no deadline, as a busy machine is not a finding.

``make check`` asks for the profile ``few``: a tenth of the inputs, so that it takes seconds.

As unit tests, these start nothing, open nothing and wait for nothing but what they test.
"""

from hypothesis import settings

from tests.isolation import (  # noqa: F401 - hooks
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)

settings.register_profile("hourhand", deadline=None, print_blob=True)
settings.register_profile("few", settings.get_profile("hourhand"), max_examples=10)
settings.load_profile("hourhand")
