"""A method, a metric and a layout of data for gradskip-onnx: a template to copy."""
