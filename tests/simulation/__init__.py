"""The whole system in one thread, from one seed."""
