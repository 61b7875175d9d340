"""The stream of outcomes: one record of each closed task, told in order."""
