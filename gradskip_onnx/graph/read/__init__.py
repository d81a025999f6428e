"""From the bytes of a file to a plain forward graph."""
