"""TurboQuant KV-cache kernels in Triton: store, attention and dequantisation, each with its law in reference.py."""

__version__ = "0.1.0"
