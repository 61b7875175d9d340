"""Measures that share their set-up, one family to a file, in the order they are taken."""
