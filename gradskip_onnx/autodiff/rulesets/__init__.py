"""Rule sets: the true gradient, and relevance rules as overlays of it."""
