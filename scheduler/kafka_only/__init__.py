"""Messages that wait in Kafka alone, in partitions that are buckets of time."""
