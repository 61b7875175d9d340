"""The numbers of a node and its views: metrics, health, reports."""
