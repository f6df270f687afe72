"""The CUDA kernels."""
