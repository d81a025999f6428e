"""Writes results to files, each complete or not at all."""
