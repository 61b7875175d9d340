"""What counts, measures and traces a node: cells, wrappers around ports, and ways out.

Decides nothing about tasks: with all of it left away a node does the same.
"""
