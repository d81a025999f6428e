"""Proves claims about a graph by running it: dry runs, probes and measurements."""
