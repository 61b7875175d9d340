"""Tests of the examples' own judgement."""
