"""What runs on the engine as tasks of its own: relay, recurring schedules, timers."""
