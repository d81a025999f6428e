"""Reverse-mode differentiation from ONNX graph to ONNX graph."""
