"""Tasks of Hourhand itself, which run on its engine beside those of users."""
