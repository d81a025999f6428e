"""Methods that hide parts of the image and ask the model again."""
