"""Tests of the site: its files, and its page in a browser."""
