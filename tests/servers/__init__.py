"""Real servers for tests and for ``make up``: from Maven jars, without containers."""
