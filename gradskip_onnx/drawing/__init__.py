"""Pictures: colours, overlays and figures."""
