"""An application with its own database: ``python -m examples.demo_fleet``.

It schedules within its PostgreSQL transactions, of which some are rolled back.  The outbox's mover
is killed twice, and one of two node processes once.  Then an audit of what the executors wrote
down, of the database and of the topic says which promises held.
"""
