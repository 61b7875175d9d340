"""The stage of every demonstration: its processes, its checks, and the way it ends."""
