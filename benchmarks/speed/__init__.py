"""How long an explanation takes and how much memory, beside the plain model and beside PyTorch."""
