"""The data pipeline: jobs on Spark over everything that an installation has stored.

It reads and writes whole buckets, which the engine never does, and reaches stores and log through
the wiring alone. Importing this package loads no Spark; its modules do.
"""
