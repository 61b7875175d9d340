"""Tests of storage with Kafka alone, without a broker."""
