"""The check after each edit: the linters, and the tests that are nearest to what changed."""
