"""The main job on real servers: ``python -m examples.demo_cluster``.

A topic of a real Kafka that somebody else's producer writes to as well, a real Cassandra,
three nodes of one group: one is stopped, one is killed, one is started meanwhile.  Then an
audit of what the executors themselves wrote down says which promises held.
"""
