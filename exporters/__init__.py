"""From a framework model to an ONNX file with its gradient graph; torch is imported only when called."""
