"""Programs that show Hourhand at work; each is run as a module from the repository's folder."""
