"""Examples and edges of the vocabulary."""
