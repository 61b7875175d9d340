"""Tests of a partition's subtree as a box, judged by the promises alone.

Its faces are what outlives any change of its inside.  In: records as the log delivers them,
pauses, drains and losses, ends of attempts, answers and failures of the store and the log, time, in
an order that a seed picks.  Out: what is asked of the runner, written, read, answered, put aside
and told.

Which of them sees to what the tests of the messages inside see to, in ``tests/unit/actors``:

    ============================== =======================================================
    test_...                       is covered by, of ``test_box.py``
    ============================== =======================================================
    turn                           plain, commands, small, pauses, moves
    ordering_executor              plain, small, retries
    partition_executor             plain, moves, small
    partition_executor_pauses      pauses
    runs                           runs, moves
    unordered_tasks                places, pauses, moves
    task_executor                  retries, plain
    task_executor_commands         commands, retries, flows (a limit)
    task_executor_kinds            kinds
    task_executor_told             failures, moves; not: which events are told
    partition_scheduler_slots      plain, small, large
    partition_scheduler_on_time   backlog, outages
    partition_scheduler_flows      flows, herd; not: how many are handed on at a time
    task_persistence_backlog       backlog, outages; not: how often it looks
    task_persistence_flows         herd, stored_herd; not: how often it looks
    ============================== =======================================================

``worst_moments`` brings together what chance seldom would: records and commands about a task
whose attempt ends, drains whose attempts end badly, crashes, outages.  ``isolation`` holds some
ids up and looks at the slots, bytes and watermark that are left to others.

Few of the faults in ``runs.toml`` and ``unordered.toml`` of ``tests/simulation/mutants`` are seen
yet: of what they break the roles' tests are the judges.

It does not see what costs time alone (how much is read or handed on at once, how often a search
goes on) and what an event says: such tests stay with the roles.
"""
