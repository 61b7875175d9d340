"""The outbox: tasks that are scheduled within a transaction of the user's own database.

Decides what stands in the table, and how its rows get to the log; never what a task does.
"""
