"""Finds the transformer in a graph: attention, residual stream, token grid, head."""
