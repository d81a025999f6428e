"""Methods that read gradients at tokens or pixels."""
