"""From a task to a record of the log: what is admitted, appended and receipted."""
