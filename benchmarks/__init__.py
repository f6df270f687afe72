"""Measurements: the paper's sets over seeds, and speed against peers."""
