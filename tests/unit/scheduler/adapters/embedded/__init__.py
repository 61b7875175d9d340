"""The embedded log and stores: what the conformance suites do not ask."""
