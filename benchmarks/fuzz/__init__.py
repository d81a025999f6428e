"""Fuzzers: damaged models, images, settings and cache entries through the command line, each with a verdict."""
