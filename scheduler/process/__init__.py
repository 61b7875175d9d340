"""This process: forks, interrupts, user code on our threads, the collector, start and stop."""
