"""The backend for Django, in its own programs and environments."""
