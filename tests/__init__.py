"""Tests: each states a fact."""
