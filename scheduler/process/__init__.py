"""This process: forks, interrupts, our threads, user code on them, the collector, start, stop."""
