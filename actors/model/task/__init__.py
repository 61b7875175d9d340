"""A task, its key and its parts, and the forms in which records and rows have them."""
