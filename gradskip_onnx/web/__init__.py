"""Writes a static site that explains images in the browser, by ONNX Runtime Web and a file that explains itself."""
