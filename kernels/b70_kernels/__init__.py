"""TurboQuant KV-cache kernels in Triton: store, attention and dequantisation, each with its law in reference.py."""
