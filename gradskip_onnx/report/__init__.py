"""The report of an audit: a page for people, JSON for programs, and a section for a model card."""
