"""Protocols for the resources that jobs, services and operators need, with contracts in prose."""
