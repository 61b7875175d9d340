"""The dashboard in a real browser, against nodes that really run; `make test-browser`."""
