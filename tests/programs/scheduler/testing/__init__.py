"""The test kit beside a real node."""
