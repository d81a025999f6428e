"""Rewrites a model so that tokens can be left out: its token axis gets a free length."""
