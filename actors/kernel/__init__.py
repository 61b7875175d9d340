"""Actors on one shared dispatcher: mailboxes, parents, timers, escalation."""
