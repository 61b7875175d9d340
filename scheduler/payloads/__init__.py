"""Payload codecs: what a task's data goes through between the user's code and its record.

Decides how data is sealed and opened; never which task is run, and keeps no task.
"""
