"""The decisions of operators and what they are told: pauses, events, owners, reports and counts."""
