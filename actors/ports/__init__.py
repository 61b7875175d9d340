"""The ports of the tree, as narrow protocols with contracts in prose."""
