"""The HTTP timer service."""
