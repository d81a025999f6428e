"""The user's model file: its bytes, weights, hash and metadata."""
