"""Workers run user code: the last stage of an attempt, in threads, loops and processes."""
