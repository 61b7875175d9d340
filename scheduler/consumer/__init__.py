"""The partitions of a log that a member of a group reads: their durable and committed offsets."""
