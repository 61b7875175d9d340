"""The decisions of a Hourhand node, as a tree of actors.

::

    TopicSupervisor                 splits a polled batch by partition
    └── PartitionSupervisor         one per assigned partition, fails as one
        ├── TaskPersistence         the schedule: read checkpoint and watermark
        ├── ThroughputController    when to load more
        ├── PartitionScheduler      holds loaded tasks until due
        ├── CompletionTracker       completions and attempts
        └── PartitionExecutor       one OrderingExecutor per busy ordering id
            └── OrderingExecutor    one task at a time, in key order
                └── TaskExecutor    one attempt after another, of one task

Nothing here reads a clock, opens a socket or a file, or starts a thread, except
``hourhand.actors.kernel``; effects come in through ``hourhand.actors.ports``.  ``scheduler``
imports ``actors``, never the other way round.
"""
