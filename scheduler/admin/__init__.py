"""The admin API: what an operator sees of an installation and may do to it, over HTTP."""
