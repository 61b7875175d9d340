"""Chaos on real servers: nodes, brokers and stores die under load, and the judge recounts.

``make chaos`` runs ten minutes on three brokers, three Cassandra nodes and four nodes of
Hourhand; ``test_chaos`` a short one on fewer.  Nothing here signals a process it did not
start.
"""
