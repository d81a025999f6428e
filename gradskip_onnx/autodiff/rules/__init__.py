"""The gradient of each operator."""
