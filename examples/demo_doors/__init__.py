"""The relay and the timer service on real servers: three nodes, one of which is killed.

``python -m examples.demo_doors.relay`` and ``python -m examples.demo_doors.timers``.  Both judge
themselves by what came out at the other end, and share no code with the engine for that.
"""
