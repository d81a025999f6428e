"""Reading model files: loading, indexing, patterns, proofs and the architecture they add up to."""
