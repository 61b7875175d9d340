"""The partitions of a log that a member of a group reads: what is durable, what is committed."""
