"""The promises of docs/promises.md, each tried by tests that carry its number."""
