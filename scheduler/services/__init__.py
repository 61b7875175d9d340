"""Features that run on the engine as tasks of its own: relay, recurring schedules, timers."""
