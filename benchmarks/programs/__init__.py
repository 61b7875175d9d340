"""Programs of Hourhand's side that run as processes of their own: nodes and clients."""
