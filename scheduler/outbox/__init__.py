"""The outbox: tasks that are scheduled within a transaction of the user's own database.

Decides the content of the table, and how its rows get to the log.
"""
