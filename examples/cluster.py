"""
A job that may be killed
========================

A job in a batch service must know how much memory to request, and keep its finished stages when it is killed.

Run it with ``python examples/cluster.py [number of points]``. :doc:`/jobs` does the same on the command line, and
:doc:`/project/containers` has jobs for SLURM, Kubernetes, AWS Batch and Google Batch. This job runs on one machine;
:doc:`/cluster` uses several.
"""

import sys

from ies_gpu import datasets, select_coordinates
from ies_gpu.resources import estimate_resources

n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
X = datasets.load("D1", n_samples=n).X
options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25 * (10_000 / n) ** 0.5}

# %%
# A small run tells us the number of neighbours per point. At the same bandwidth, it grows with the number of points.

few = select_coordinates(X[: n // 2], **options)
degree = 2 * few.diagnostics["mean_degree"]
job = estimate_resources(n=n, dim=X.shape[1], degree=degree)
print(f"request {job.request_bytes / 1e6:.0f} MB of memory and {job.checkpoint_bytes / 1e6:.0f} MB of disk")

# %%
# The job saves every finished stage. If it is killed and started again with the same call, it continues after the last
# one. Here we stop the first run while it computes the tangent bases.


def stopped(stage, done, total):
    if stage == "tangents":
        raise KeyboardInterrupt


try:
    select_coordinates(X, **options, checkpoint="saved", resume=True, progress=stopped)
except KeyboardInterrupt:
    print("stopped")

selection = select_coordinates(X, **options, checkpoint="saved", resume=True)
print(selection.names, "resumed:", selection.diagnostics["checkpoint"]["resumed"])
