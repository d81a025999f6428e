"""Tests of autodiff."""
