"""What jobs, doors and operators need from outside, as protocols with contracts in prose."""
