"""Scores that can be differentiated; class and pixels are chosen inside the graph."""
