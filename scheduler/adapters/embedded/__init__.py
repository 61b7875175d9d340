"""Log and store in one folder: two SQLite files, a lock, a bell."""
