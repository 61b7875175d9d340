"""From a task to a record of the log: admission, appending and receipts."""
