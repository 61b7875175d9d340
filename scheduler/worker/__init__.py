"""The programs behind a node that runs user code in processes: the guardian and the processes.

Each is a program of its own, which inherits no open file or connection of the node.
"""
