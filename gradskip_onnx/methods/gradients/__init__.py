"""Methods that read gradients at tokens or pixels; some of these gradients are relevance by other rules."""
