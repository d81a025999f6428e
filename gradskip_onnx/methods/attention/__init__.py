"""Methods that read attention."""
