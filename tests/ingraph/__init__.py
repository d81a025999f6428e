"""Tests of ingraph."""
