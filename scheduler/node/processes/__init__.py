"""The processes that run user code, seen from the node: frames, deadlines, deaths and ends."""
