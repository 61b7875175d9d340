"""Tests of the tree's roles, one at a time."""
