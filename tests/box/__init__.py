"""Tests of a partition's subtree as a box, judged by the promises alone."""
