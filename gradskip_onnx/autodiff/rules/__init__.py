"""The gradient rule of each operator."""
