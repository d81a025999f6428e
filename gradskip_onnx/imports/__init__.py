"""Imports on first use: lazy public names, and optional packages."""
