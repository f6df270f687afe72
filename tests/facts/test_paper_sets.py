"""The paper's sets, memory at its scale, and held-out points, which land where a joint embedding has them."""

import subprocess
import sys

import pytest

from benchmarks.new_points import held_out
from benchmarks.sets import EXPECTED, explanation, run
from ies_gpu import datasets


@pytest.mark.slow
def test_the_papers_sets_on_d1_to_d12():
    """111 of 120 when this was written: D1, D3 and D4 swap two nearly equal eigenvectors in one sample of eight."""
    misses = []
    for name in list(datasets.names())[:12]:
        for seed in range(10):
            selection = run(name, seed)
            if selection.subset != EXPECTED[name]:
                misses.append((name, seed, selection.subset, explanation(selection, EXPECTED[name])))
    assert len(misses) <= 12, misses


LIMITED = """
import resource
from benchmarks.sets import EXPECTED, run
selection = run("D13", 11)
print(selection)
assert selection.subset == EXPECTED["D13"], selection.subset
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 12 * 2**20
"""

STRIP = """
import resource
from ies_gpu import datasets, select_coordinates
data = datasets.load("D1", n_samples=100_000)
selection = select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.25 * 0.1**0.5)
assert 130 < selection.diagnostics["mean_degree"] < 180, selection.diagnostics["mean_degree"]
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1.5 * 2**20
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [LIMITED, STRIP], ids=["D13 within 12 GB", "a strip of 100,000 within 1.5 GB"])
def test_memory_stays_within_its_limit(code):
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "n"), [("D1", 2000), *(pytest.param(name, 10_000, marks=pytest.mark.slow) for name in ("D1", "D3", "D7"))]
)
def test_held_out_points(name, n):
    row = held_out(name, n)
    assert row.isolated == 0
    assert row.returned < 1e-6  # training points return
    # as near to the joint map as the training points, which were embedded twice, are to themselves
    assert row.extension < 1.5 * row.training < 0.1
    assert row.extension < row.nearest
