"""Compares two audits of the same images: do two files, devices or methods decide alike, and for the same reasons?"""
