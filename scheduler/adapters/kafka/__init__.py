"""The log on Apache Kafka: group membership, appending, topics."""
