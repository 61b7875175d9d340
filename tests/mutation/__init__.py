"""A sweep with mutmut: every small change of a file, judged by the tests that run it."""
