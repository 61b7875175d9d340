"""Log and store as plain values, for tests and simulation: no thread, no lock, no real time."""
