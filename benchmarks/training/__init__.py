"""What every training of this repository shares: the descent, and the ONNX file at its end."""
