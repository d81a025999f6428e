"""Explain a vision transformer from its ONNX file alone."""
