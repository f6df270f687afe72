"""Every entry point of every CUDA source, by name: emulated under three schedules against plain code.

The names come from ``text.ENTRIES`` and the sources from the folder: what is new and has no case here fails.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import csr, launch, neighbours, text
from tests.backend import test_cuda_kernels as kernels
from tests.backend import test_cuda_rows as rows
from tests.cuda_emulator import SCHEDULES, Kernel, barriers

TYPES = {"f32": np.float32, "f64": np.float64}
ALL = [(name, entry) for name, entries in text.ENTRIES.items() for entry in entries]


def types_of(entry: str) -> list[type]:
    return [TYPES[part] for part in entry.split("_") if part in TYPES]


def tangents(entry: str) -> float:
    dtype = types_of(entry)[0]
    stored = {"w32": np.float32, "w64": np.float64}.get(entry.split("_")[-1], dtype)
    problem = kernels.make_problem(20, dtype)
    problem = problem._replace(weights=problem.weights.astype(np.float32).astype(stored))
    U, sigma = launch.tangent_rows(*problem, 3)
    return kernels.Reference(problem).error(U, sigma)


def scores(entry: str) -> float:
    d, dtype = int(entry.split("_")[2]), types_of(entry)[0]
    U, subsets = kernels.make_bases(12, d, dtype), kernels.make_subsets(12, min(d + 1, 12), 70)
    return kernels.score_error(U, subsets, kernels.run_scores(launch, U, subsets))


def product(entry: str) -> float:
    stored, dtype = types_of(entry)
    V = np.random.default_rng(0).normal(size=(rows.N, 7)).astype(dtype)
    matrix = rows.make_matrix(stored)
    return rows.off(csr.spmm(*matrix, V), plain.spmm(*matrix, V).astype(dtype))


def scaled(entry: str) -> float:
    stored, out = types_of(entry)
    left, right = np.random.default_rng(0).uniform(1, 2, size=(2, rows.N))
    indptr, indices, data = rows.make_matrix(stored)
    found, expected = np.zeros(len(data), out), data.astype(float)
    csr.scaled_into(indptr, indices, data, left, right, found)
    plain.scaled_entries(indptr, indices, expected, left, right)
    return rows.off(found.astype(float), expected)


def labels(entry: str) -> float:
    matrix, numbers = rows.make_matrix(types_of(entry)[0]), np.arange(rows.N, dtype=np.int32)[::-1].copy()
    return rows.off(csr.smallest_labels(*matrix, numbers), plain.smallest_labels(*matrix, numbers))


def columns(entry: str) -> float:
    A, B = np.random.default_rng(0).normal(size=(2, rows.N, 9)).astype(types_of(entry)[0])
    return max(rows.off(csr.column_products(A, B), plain.column_products(A, B)),
               rows.off(csr.column_products(A), A.sum(axis=0, dtype=float)))  # fmt: skip


def merged(entry: str) -> float:
    weights = np.random.default_rng(1).random(rows.N).astype(np.float32)
    indptr, indices, data = rows.make_matrix()
    matrix = indptr, indices, data + 1
    given = (*matrix, rows.STARTS, weights, *((rows.N,) if entry == "merge_rows" else ()))
    pairs = zip(getattr(csr, entry)(*given), getattr(plain, entry)(*given), strict=True)
    return max(rows.off(found, expected) for found, expected in pairs)


def restricted(entry: str) -> float:
    weights, R = np.ones(rows.N, np.float32), np.random.default_rng(2).normal(size=(rows.N, 5)).astype(np.float32)
    return rows.off(csr.restrict(rows.STARTS, weights, R), plain.restrict(rows.STARTS, weights, R))


def step(entry: str) -> float:
    pairs = zip(*(rows.step_of_conjugate_gradients(module, 8) for module in (csr, plain)), strict=True)
    return max(rows.off(found, expected) for found, expected in pairs) / 3


def near(entry: str) -> float:
    return rows.pairs_off(3, diagonal=not entry.endswith("f32"))


CASES = {
    "tangent_rows": tangents, "score_block": scores, "product": product, "scaled": scaled, "smallest_label": labels,
    "column_products": columns, "merge_columns": merged, "merge_rows": merged, "restricted": restricted,
    "descend": step, "turn": step, "totals": step, "near_pairs": near, "degrees": near,
}  # fmt: skip


@kernels.needs_emulator
@pytest.mark.parametrize(
    ("name", "entry"),
    [pytest.param(*both, id=both[1], marks=pytest.mark.thorough if "f32" in both[1] else ()) for both in ALL],
)
def test_every_entry_point_equals_plain_under_every_schedule(name, entry, monkeypatch):
    (case,) = (case for start, case in CASES.items() if entry == start or entry.startswith(f"{start}_"))
    for module, most in ((csr, "MAX_BLOCKS"), (csr, "MAX_SUM_BLOCKS"), (neighbours, "MAX_BLOCKS"),
                         (launch, "MAX_TANGENT_BLOCKS"), (launch, "MAX_SCORE_BLOCKS")):  # fmt: skip
        monkeypatch.setattr(module, most, 3)  # so that each block takes several rows
    for schedule in SCHEDULES:
        ran = []

        def load(name: str, entry: str, schedule: str = schedule, ran: list = ran) -> Kernel:
            ran.append(entry)
            # as the tests of the sources take them, so that g++ has compiled them already
            given = text.source(name) if name in ("csr", "neighbours") else text.source(name, entry)
            return Kernel(given, entry, schedule=schedule)

        monkeypatch.setattr(text, "load_kernel", load)
        assert case(entry) < 40
        assert entry in ran


def test_every_source_and_barrier_has_its_test():
    """A removed barrier is noticed, one by one, by the tests named ``..._barrier_...`` of the two modules."""
    sources = {file.name[:-3] for file in resources.files(text.__package__).iterdir() if file.name.endswith(".cu")}
    assert sources == set(text.ENTRIES)
    tested = [
        mark.args[1]
        for module in (kernels, rows)
        for test in vars(module).values()
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "parametrize" and mark.args[0] == "line"
    ]
    assert sorted(tested) == sorted(barriers(text.source(name)) for name in sources)
