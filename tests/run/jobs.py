"""A job that the tests of checkpoints run, and its stages."""

from __future__ import annotations

from ies_gpu.run.run import SAVED

OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6}
STAGES = [name for name in SAVED if name != "automatic"]


def forget(folder, kept):
    """Leave only so many stages."""
    for stage in STAGES[kept:]:
        (folder / f"{stage}.npz").unlink(missing_ok=True)
