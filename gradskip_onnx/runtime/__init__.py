"""ONNX Runtime behind one door: devices, sessions, and errors in one line."""
