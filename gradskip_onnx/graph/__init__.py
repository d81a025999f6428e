"""Reads model files: loads the graph, finds the transformer in it and proves each claim; also rewrites graphs."""
