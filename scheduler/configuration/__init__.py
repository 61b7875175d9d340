"""Settings: what they are, where they come from, and which contradict each other."""
