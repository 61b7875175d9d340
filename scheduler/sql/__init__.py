"""Questions in SQL over an export, or over a window of the live store.

Decides the tables; DuckDB reads them, in this process and its memory.
"""
