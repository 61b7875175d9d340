"""The programs that people start: each parses its arguments, calls the rooms below and prints the
answer. It decides nothing about tasks.
"""
