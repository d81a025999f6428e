"""Numerical witnesses: dry runs, probes and what each of them proves."""
