"""Tests of cache."""
