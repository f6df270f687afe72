"""Tests that need a CUDA device: ``python -m pytest -m gpu``. Without one they skip themselves and say why."""
