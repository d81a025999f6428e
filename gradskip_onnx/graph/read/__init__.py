"""Turns the bytes of a file into a plain forward graph."""
