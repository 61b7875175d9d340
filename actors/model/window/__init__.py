"""The part of a partition that is in memory: its tasks in order, its reach and its budget."""
