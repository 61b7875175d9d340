"""The storage with Kafka alone, on a real broker."""
