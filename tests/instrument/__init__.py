"""Tests of instrument."""
