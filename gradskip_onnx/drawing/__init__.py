"""Draws maps: palettes, the view of a map for the eye, the outline, panels, figures and grids."""
