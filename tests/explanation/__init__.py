"""Tests of explanation."""
