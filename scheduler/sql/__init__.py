"""The SQL door: questions in SQL over an export, or over a window of the live store.

Decides which tables there are; what reads them is DuckDB, in this process and its memory.
"""
