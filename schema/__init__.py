"""The store's tables as numbered CQL files, shipped in the wheel as ``scheduler.schema``."""
