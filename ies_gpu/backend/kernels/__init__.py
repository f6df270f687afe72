"""The few fused inner loops, with the same arguments in ``plain``, ``numba_`` and ``cuda_``."""
