"""The process that Hourhand shares with user code: futures, interrupts, forks and threads."""
