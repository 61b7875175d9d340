"""A bad night on the embedded default, and the morning after: ``make demo-night``."""
