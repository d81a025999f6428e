"""What is kept on disk between calls."""
