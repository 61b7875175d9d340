"""Tasks that come again and again."""
