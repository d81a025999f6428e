"""ONNX files that carry their own gradient graph."""
