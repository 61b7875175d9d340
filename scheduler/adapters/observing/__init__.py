"""Metrics, measurements and traces of a node: cells, wrappers around ports, and servers.

Decides nothing about tasks: a node without them does the same.
"""
