"""The admin API: an operator's view of an installation over HTTP, and the acts on it."""
