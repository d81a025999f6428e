"""Rewrites of a graph that keep its results: fused operators are written out, unread rows are not computed."""
