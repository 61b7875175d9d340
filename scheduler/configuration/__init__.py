"""Settings: their names, their sources, and their contradictions."""
