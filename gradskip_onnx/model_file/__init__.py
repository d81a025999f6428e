"""The model file as it was given: its bytes, weights, hash and metadata."""
