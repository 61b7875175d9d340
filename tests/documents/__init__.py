"""The pages of docs/: examples run, commands are real, and the site they make is whole."""
