"""The demonstration on the embedded default: a plan, nodes that die, an audit."""
