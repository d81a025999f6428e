"""Bridges to other packages, one a module, each importing its package when it is called: docs/adapters.md."""
