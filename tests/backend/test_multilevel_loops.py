"""The loops of the multilevel eigensolver: fused ones against plain ones, and both against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.backend.compare import small_cases
from ies_gpu.backend.kernels import plain

from .kernel_sides import on_host


@pytest.mark.parametrize("k", [1, 8, 13, 40])
def test_products_with_chosen_columns_and_scaled_matrices(side, k):
    """Beside those of the table in test_kernels.py."""
    rng, run = np.random.default_rng(k), side.run
    ((*matrix, V, _, scale),) = small_cases("block_product", n=300, k=k)[1:]
    wide, columns = rng.normal(size=(300, 3 * k)).astype(np.float32), rng.integers(0, 3 * k, k)
    root, xp = rng.uniform(1, 2, 300), side.xp
    there = [xp.asarray(part) for part in (*matrix, V, wide, scale)]
    near = {"rtol": 1e-4, "atol": 1e-4}
    found = side.module.block_product(*there, chosen=(xp.asarray(columns), xp.asarray(scale)))
    assert found.dtype == np.float32
    expected = run("block_product", *matrix, V, wide[:, columns] * scale, scale)
    np.testing.assert_allclose(on_host(found), expected, **near)
    roots = tuple(xp.asarray(part.astype(np.float32)) for part in (root, 1 / root))
    scaled = run("symmetric_entries", *matrix, root)
    found = side.module.block_product(*there[:4], root=roots)
    np.testing.assert_allclose(on_host(found), run("block_product", *matrix[:2], scaled, V), **near)


def test_a_column_that_does_not_curve_up_takes_no_step(side):
    Z, R, P, image = (np.ones((3, 2), dtype=np.float32) for _ in range(4))
    side.run("descend", Z, R, P, image, np.array([1.0, 1.0]), np.array([-1.0, 2.0]))
    np.testing.assert_array_equal(Z[0], [1.0, 1.5])


def exact_step(rng, n, k, p, t):
    """X, R, P, SP, T, ST as the solver holds them for a symmetric S, which comes last."""
    S = rng.normal(size=(n, n))
    S = (S + S.T) / n
    X = np.linalg.qr(rng.normal(size=(n, k)))[0]
    values = np.linalg.eigvalsh(X.T @ S @ X)[::-1]
    R = (S @ X - X * values).astype(np.float32)
    P, T = (rng.normal(size=(n, width)).astype(np.float32) for width in (p, t))
    return (X, R, P, (S @ P).astype(np.float32), T, (S @ T).astype(np.float32)), values, S


@pytest.mark.parametrize("kernels", ["plain", "fused"])
@pytest.mark.parametrize(("k", "p", "t"), [(0, 0, 5), (4, 0, 3), (4, 3, 3), (20, 16, 24)])
def test_inner_products_and_the_step_are_what_they_are_called(kernels, k, p, t):
    """Against dense algebra with S itself: the residuals and images that the step writes belong to its vectors."""
    module = plain if kernels == "plain" else pytest.importorskip("ies_gpu.backend.kernels.fused")
    rng = np.random.default_rng(k)
    tall, before, S = exact_step(rng, 300, k, p, t)
    X, R, P, _, T, _ = tall
    Y = np.concatenate([P, T], axis=1).astype(float)
    for ours, exact in zip(module.gram(*tall), (X.T @ R, X.T @ Y, R.T @ Y, Y.T @ Y, Y.T @ S @ Y), strict=True):
        np.testing.assert_allclose(ours, exact, atol=1e-4)
    np.testing.assert_allclose(module.inner(X, R), X.T @ R, atol=1e-5)
    new = k or 3
    active, values = np.arange(new)[:: max(1, new // t + 1)], rng.normal(size=new)
    a, b, from_Y = rng.normal(size=(k, new)), rng.normal(size=(k, len(active))), rng.normal(size=(p + t, new))
    if not k:
        tall = (np.empty((300, new)), np.empty((300, new), dtype=np.float32), *tall[2:])
    from_X = np.concatenate([a, before[:, None] * a - a * values, -b, -before[:, None] * b], axis=1)
    step = Y @ from_Y
    expected, beside = X @ a + step, step[:, active] - X @ b
    idle = T[:, len(active) :].copy()
    squares = module.update(*tall, from_X, np.concatenate([a, -b], axis=1), from_Y, values, active)
    X, R, _, _, T, ST = tall
    np.testing.assert_allclose(X, expected, atol=1e-10)
    np.testing.assert_allclose(R, S @ expected - expected * values, atol=1e-4)
    np.testing.assert_allclose(squares, ((S @ expected - expected * values) ** 2).sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(T[:, : len(active)], beside, atol=1e-4)
    np.testing.assert_allclose(ST[:, : len(active)], S @ beside, atol=1e-4)
    np.testing.assert_array_equal(T[:, len(active) :], idle)


@pytest.mark.parametrize(("k", "p", "t"), [(0, 0, 8), (7, 8, 8), (30, 16, 24)])
def test_fused_tall_products_agree_with_the_plain_ones(k, p, t):
    """Over several chunks, with columns of zeros and rows that are huge."""
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    rng = np.random.default_rng(k)
    n, new = 5000, k or 6
    X = rng.normal(size=(n, new))
    R, P, SP, T, ST = (rng.normal(size=(n, width)).astype(np.float32) for width in (new, p, p, t, t))
    for tall in (X, R, P, SP, T, ST):
        tall[::1000] *= 1e3
    T[:, -2:] = ST[:, -2:] = 0
    start = X[:, :k], R[:, :k], P, SP, T, ST
    for ours, theirs in zip(fused.gram(*start), plain.gram(*start), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12 * np.abs(theirs).max(initial=1))
    np.testing.assert_allclose(fused.inner(X, R), plain.inner(X, R), rtol=1e-9, atol=1e-6)
    active = np.arange(0, new, 2)[:5]
    small = [rng.normal(size=(k, 2 * new + 2 * len(active))), rng.normal(size=(k, new + len(active)))]
    small += [rng.normal(size=(p + t, new)), rng.normal(size=new), active]
    results = []
    for module in (fused, plain):
        tall = [part.copy() for part in (X, R, P, SP, T, ST)]
        results.append([*tall, module.update(*tall, *small)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max(initial=1))
