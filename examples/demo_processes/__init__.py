"""User code that computes, hangs, leaks and crashes, in processes: ``make demo-processes``."""
