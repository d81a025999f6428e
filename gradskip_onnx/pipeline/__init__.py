"""Explains images, one or many, with an opened model."""
