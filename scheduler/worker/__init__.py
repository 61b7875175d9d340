"""The programs behind a node that runs user code in processes: the guardian and the processes.

Each is a program of its own; nothing of the node's is open in it.
"""
