"""The few fused inner loops, with the same arguments in ``plain``, ``fused`` and ``cuda_``."""
