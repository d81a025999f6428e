"""Measures audits: what they cost, whether memory stays flat, whether a killed one ends as one that was left alone."""
