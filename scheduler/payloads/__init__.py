"""Payload codecs: transformations of a task's data between the user's code and its record.

Decides how data is sealed and opened; it chooses no task and keeps none.
"""
