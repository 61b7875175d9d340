"""The admin API over memory: no server, no port."""
