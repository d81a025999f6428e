"""Findings of an audit with intervals and examples, clusters of its maps, drift, and a policy that may fail it."""
