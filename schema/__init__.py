"""The store's tables as numbered CQL files, which are ``hourhand.scheduler.schema``."""
