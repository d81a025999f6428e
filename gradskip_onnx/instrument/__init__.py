"""Turns what a method needs into a graph that outputs it."""
