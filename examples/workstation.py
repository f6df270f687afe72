"""
A workstation with a GPU
========================

Read points from a file, compute on the device, write the results to files. **This script was not run for this page, and
never on a GPU**: see :doc:`/gpu`.

Run it with ``python examples/workstation.py points.npy results -d 2 -s 2 --bandwidth 0.25``. Add ``--device cpu`` if
you have no GPU.

The points are mapped from the file, not read into memory first. ``--device cuda`` never falls back silently: without a
working GPU, the script ends with an error that says what is missing.
"""

import argparse
from pathlib import Path

import numpy as np

from ies_gpu import select_coordinates

parser = argparse.ArgumentParser(description="Choose coordinates on a GPU.")
parser.add_argument("points", type=Path, help=".npy, one row per point")
parser.add_argument("results", type=Path, help="folder for the results")
parser.add_argument("-d", type=int, required=True, help="dimension of the manifold")
parser.add_argument("-s", type=int, required=True, help="how many coordinates to choose")
parser.add_argument("--bandwidth", type=float, required=True, help="length over which neighbours count")
parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu (cuda)")
parser.add_argument("--dtype", default="float64", help="float32 halves the memory of the kernel (float64)")
args = parser.parse_args()
args.results.mkdir(parents=True, exist_ok=True)

X = np.load(args.points, mmap_mode="r")
selection = select_coordinates(
    X, intrinsic_dim=args.d, subset_size=args.s, bandwidth=args.bandwidth, device=args.device, dtype=args.dtype
)
print(selection)
seconds = selection.diagnostics["seconds"]
print("seconds:", ", ".join(f"{stage} {value:.2f}" for stage, value in seconds.items()))

np.save(args.results / "embedding.npy", selection.embedding)  # the chosen columns
(args.results / "summary.json").write_text(selection.to_json())
selection.save(args.results / "run.npz")  # all of it, for ies_gpu.load and 'ies-gpu show'
selection.model(X).save(args.results / "model.npz")  # for new points: 'ies-gpu transform'
print("written to", args.results)
