"""Tests that start programs, open sockets or let real time pass; the folders mirror the source."""
