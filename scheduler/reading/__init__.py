"""Reading what is stored, from outside of a node."""
