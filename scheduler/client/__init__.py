"""The client: schedules tasks, sends commands, asks for messages and recurring schedules."""
