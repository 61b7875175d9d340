"""What the bare servers and drivers do without an engine: the ceiling of every figure."""
