"""Tests of selfcontained."""
