"""Methods that hide parts of the image and run the model again."""
