"""Futures that are lighter than the standard library's, and helpers for them."""
