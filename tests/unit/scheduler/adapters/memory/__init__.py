"""The memory log and stores: what only a fake can be asked."""
