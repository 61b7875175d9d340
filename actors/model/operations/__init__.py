"""The decisions of operators and their view: pauses, events, owners, reports and counts."""
