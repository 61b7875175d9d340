"""Tasks on their way in and out of storage: admitted, appended, receipted, found and listed."""
