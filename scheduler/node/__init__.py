"""A node: what it holds, claims and polls, and how it runs user code."""
