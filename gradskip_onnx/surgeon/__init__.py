"""Helpers for onnx-graphsurgeon, shared by graph and autodiff: writing nodes, element types, its private names."""
