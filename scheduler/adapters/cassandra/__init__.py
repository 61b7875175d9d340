"""Cassandra as the store: schedule, statuses and ownership in the keyspace of the settings."""
