"""The check after each edit."""
