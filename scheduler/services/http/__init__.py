"""The guard and the typed routes of every HTTP service."""
