"""The judge of runs on real processes: it knows the promises, and shares no code with the engine.

A run writes down what was asked for, what executors noted, and which faults struck; it translates
that into a ``History``, and ``recount`` returns by promise what should not be.
"""
