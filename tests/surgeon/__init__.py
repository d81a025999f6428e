"""Tests of graph."""
