"""What the tree needs from outside, as narrow protocols with contracts in prose."""
