"""Tests of the names that users import."""
