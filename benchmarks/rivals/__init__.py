"""Other systems doing the same work, set up as their own documents say."""
