"""The benchmark: what Hourhand does on this machine, beside its rivals and its servers' limits."""
