"""What graph and autodiff share below them: writing nodes with onnx-graphsurgeon, and its private names."""
