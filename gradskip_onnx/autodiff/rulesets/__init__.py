"""Tables of rules: the gradient, and the relevance rules laid over it."""
