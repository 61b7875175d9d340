"""Deliberate faults in the engine, and the hunt for them with the simulation, or with tests."""
