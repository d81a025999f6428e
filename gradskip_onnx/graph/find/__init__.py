"""Where the transformer is in a graph: attention, residual stream, token grid, head."""
