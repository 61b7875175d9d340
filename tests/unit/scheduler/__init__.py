"""Tests of what connects the tree to the world."""
