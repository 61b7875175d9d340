"""Tests of the room that writes and moves outbox rows."""
