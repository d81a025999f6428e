"""Passes through an opened model: sessions for what a method needs, and the traces they return."""
