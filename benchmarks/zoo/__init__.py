"""Small vision transformers of every kind, written by every exporter, post-processed in every way, and checked."""
