"""Draws maps: colours, overlays and figures."""
