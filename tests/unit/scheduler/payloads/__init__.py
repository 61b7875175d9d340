"""Tests of the payload codecs."""
