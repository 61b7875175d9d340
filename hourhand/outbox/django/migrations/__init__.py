"""One migration for each version of the table."""
