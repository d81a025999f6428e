"""Importing late: public names, and packages that may be missing."""
