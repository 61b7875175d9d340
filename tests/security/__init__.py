"""Real servers that demand TLS, a login and rights: what is let in, and how a refusal reads."""
