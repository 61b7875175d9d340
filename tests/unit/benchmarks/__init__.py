"""The benchmark's own parts: a harness that is wrong would praise anything."""
