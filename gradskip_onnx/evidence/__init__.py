"""Evidence for an audit: a manifest of hashes, its check, its signature, and the replay of a sample."""
