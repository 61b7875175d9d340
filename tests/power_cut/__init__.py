"""Power cuts: what a real process wrote and synced is recorded, and the disk is cut in between."""
