"""The results in docs/results.md: the runs they come from, and the tables."""
