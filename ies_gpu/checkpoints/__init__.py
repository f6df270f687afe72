"""Finished stages kept on disk, so that a killed run goes on."""
