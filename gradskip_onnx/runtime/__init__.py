"""ONNX Runtime sessions: choice of device, weights, and errors in one line."""
