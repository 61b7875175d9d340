"""The programs of ``examples/``: under a virtual clock, and as a reader starts them."""
