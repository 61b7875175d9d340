"""Futures lighter than the standard library's, and what is built on them."""
