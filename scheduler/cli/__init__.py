"""Ways in: each parses, calls and renders, and decides nothing about tasks."""
