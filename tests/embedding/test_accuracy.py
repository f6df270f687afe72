"""No mixture without a word: eigenvectors against dense algebra where eigenvalues are closer than the tolerance."""

import re
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse

import ies_gpu
from ies_gpu import diffusion_map, graph_laplacian, laplacian_of_points
from ies_gpu.embedding.eigensolvers.accuracy import ANGLE, accuracy_of, distances_beyond, groups_of, separated
from ies_gpu.embedding.eigensolvers.choose_solver import SOLVERS
from ies_gpu.embedding.laplacian import Laplacian
from tests.thorough import first_of


def blobs(rng, sizes, dim: int) -> np.ndarray:
    """Full Gaussian kernels side by side, nothing between them."""
    parts = [rng.normal(size=(m, dim)) for m in sizes]
    return scipy.sparse.block_diag([np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / dim) for X in parts]).toarray()


def linked(K: np.ndarray, sizes, pairs, weights) -> np.ndarray:
    """The same with links between the first points of parts."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    for (a, b), weight in zip(pairs, weights, strict=True):
        K[first[a], first[b]] = K[first[b], first[a]] = weight
    return K


def chain_of_blobs(m: int, k: int, dim: int, link: float) -> np.ndarray:
    sizes, pairs = [m] * k, [(b, b + 1) for b in range(k - 1)]
    return linked(blobs(np.random.default_rng(0), sizes, dim), sizes, pairs, [link * (b + 1) for b in range(k - 1)])


def dense_pairs(laplacian: Laplacian) -> tuple[np.ndarray, np.ndarray]:
    """All eigenvalues of ``1 - S`` but the first, ascending, and their vectors."""
    root = np.sqrt(laplacian.weights)
    S = root[:, None] * laplacian.transition.toarray() / root
    values, vectors = np.linalg.eigh(np.eye(len(S)) - 0.5 * (S + S.T))
    return values[1:], vectors[:, 1:]


def outside(laplacian: Laplacian, found) -> np.ndarray:
    """How much of each vector lies outside the span of true ones whose eigenvalues are as good as equal to its own."""
    values, vectors = dense_pairs(laplacian)
    V = found.coordinates * np.sqrt(laplacian.weights)[:, None]
    V /= np.linalg.norm(V, axis=0)
    own = np.abs(values[:, None] - found.eigenvalues) <= 2e-3 * found.eigenvalues + 5e-15
    return np.sqrt(np.sum(np.where(own, 0.0, vectors.T @ V) ** 2, axis=0))


def mapped(laplacian: Laplacian, m: int, **options):
    """The map, and the numbers of the coordinates that a warning names."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = diffusion_map(laplacian, n_components=m, **options)
    return found, {int(k) for w in said for k in re.findall(r"phi(\d+)", str(w.message))}


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("solver", ["auto", "lanczos", "factorised"])
def test_six_blobs_that_hang_by_threads(alpha, solver):
    """Eigenvalues of 5e-11 to 1e-9, all below the tolerance: cosines to the true vectors were .83 .84 .99."""
    laplacian = graph_laplacian(chain_of_blobs(200, 6, 3, 1e-6), alpha=alpha)
    found, named = mapped(laplacian, 5, solver=solver)
    assert not named
    np.testing.assert_allclose(found.eigenvalues, dense_pairs(laplacian)[0][:5], atol=5e-15)
    assert outside(laplacian, found).max() < 1e-3
    assert (found.angles <= ANGLE).all() and (found.gaps < 1e-9).any()


@pytest.mark.parametrize("link", first_of(1e-7, 1e-4, 1e-5, 1e-6, 1e-8))
def test_however_faint_the_links(link):
    """At 1e-7 a whole vector was missed: guards that had not converged held most of it."""
    for m, k, dim in product((60, 200), (4, 6), (3, 10)):
        laplacian = graph_laplacian(chain_of_blobs(m, k, dim, link))
        found, named = mapped(laplacian, k + 1)
        assert not named and outside(laplacian, found)[: k - 1].max() < 0.02, (m, k, dim)


@pytest.mark.parametrize(("n", "bandwidth"), [(99, 2e-4**0.5), (99, 0.03), (200, 0.007), (3000, 5e-4)])
def test_a_faint_ring(n, bandwidth):
    """Closed form: eigenvalues 1e-13 to 1e-3, each twice, with the cosine and sine of the angle."""
    t = 2 * np.pi * np.arange(n) / n
    reach = 2 * np.sin(np.pi * np.arange(1, 3) / n)
    q = np.exp(-((reach / bandwidth) ** 2))[:, None]
    k = np.repeat(np.arange(1, 6), 2)
    exact = (2 * q * (1 - np.cos(2 * np.pi * k * np.arange(1, 3)[:, None] / n))).sum(axis=0) / (1 + 2 * q.sum())
    ring = np.c_[np.cos(t), np.sin(t)]
    found, named = mapped(laplacian_of_points(ring, bandwidth=bandwidth, radius=10 * reach[1]), 10)
    np.testing.assert_allclose(found.eigenvalues, exact, rtol=1e-8, atol=2e-15)
    inside = np.linalg.norm(ring.T @ found.coordinates[:, :2], axis=0) / np.sqrt(n / 2)
    assert not named & {1, 2} and inside.min() > 0.9999


def test_a_ring_fainter_than_rounding_is_refused():
    t = 2 * np.pi * np.arange(1000) / 1000
    laplacian = laplacian_of_points(np.c_[np.cos(t), np.sin(t)], bandwidth=0.0014, radius=0.12)
    with pytest.raises(ies_gpu.findings.DisconnectedGraphError):
        diffusion_map(laplacian, n_components=10)


def weakly_joined(seed: int) -> tuple[Laplacian, int]:
    """A random tree of parts, with links of weight 1e-10 to 1e-2, some of them equal, and some closing a circle."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 16))
    sizes = rng.integers(12, 90, k)
    sizes[: k // 2] = sizes[0]  # equal parts have close eigenvalues of their own
    pairs = [(int(rng.integers(0, b)) if seed % 3 else b - 1, b) for b in range(1, k)]
    pairs += [(0, k - 1)] if k > 2 and seed % 2 else []
    weights = 10.0 ** rng.uniform(-10, -2, len(pairs))
    if seed % 5 == 0:
        weights[:] = weights[0] * (1 + rng.choice([0, 1e-9, 1e-4, 1], len(pairs)))
    K = linked(blobs(rng, sizes, int(rng.integers(1, 8))), sizes, pairs, weights)
    return graph_laplacian(K, alpha=float(seed % 2)), int(rng.integers(1, 20))


def check_weakly_joined(seed: int, solver: str) -> str:
    laplacian, m = weakly_joined(seed)
    try:
        found, named = mapped(laplacian, m, solver=solver)
    except ies_gpu.findings.DisconnectedGraphError:
        assert dense_pairs(laplacian)[0][0] < 2e-13, seed
        return "refused"
    off = outside(laplacian, found)
    silent = np.array([k + 1 not in named for k in range(m)])
    assert (off[silent] < 0.03).all(), (seed, off, named, found)
    assert (off <= np.maximum(2 * found.angles, 0.03))[silent].all(), seed
    return "warned" if named else "right"


@pytest.mark.parametrize("seeds", first_of(20, 200))
@pytest.mark.parametrize("solver", SOLVERS)
def test_random_weakly_joined_graphs(solver, seeds):
    outcomes = [check_weakly_joined(seed, solver) for seed in range(seeds)]
    assert outcomes.count("right") > seeds / 2, outcomes


def test_a_guard_far_below_hides_no_vector_that_was_missed():
    """Three values above 1 - 2e-9 beside one at 1 - 4e-7: a guard at 0.5 need hide only a part of 1e-3."""
    check_weakly_joined(174, "lanczos")


@pytest.mark.parametrize("seed", range(4))
def test_angles_are_bounded_and_separating_lessens_them(seed):
    """Random spectra with close values, eigenvectors spoiled at random: the true angles lie below the bounds."""
    rng = np.random.default_rng(seed)
    n, k, guards = 80, 8, 3
    values = np.sort(1 - np.concatenate([[0], 10.0 ** rng.uniform(-7, 0, n - 1)]))[::-1]
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    S = (basis * values) @ basis.T
    X = np.linalg.qr(basis[:, :k] + 10.0 ** rng.uniform(-9, -5) * rng.normal(size=(n, k)))[0]
    bounds = []
    for turned in (False, True):
        found = np.sum(X * (S @ X), axis=0)
        if turned:
            found, C = separated(found, X.T @ X, X.T @ (S @ X - X * found))
            X = X @ C
        R = S @ X - X * found
        every = np.append(found, values[k : k + guards])
        angles = accuracy_of(every, np.linalg.norm(R, axis=0), X.T @ R, known=False).angles
        sines = np.linalg.norm(X - basis[:, :k] * np.sum(X * basis[:, :k], axis=0), axis=0)
        assert (sines <= 2 * angles + 1e-9).all()  # the bound is one to first order
        bounds.append(angles.sum())
    assert bounds[1] <= bounds[0]


def test_copies_are_one_group():
    values = 1 - np.array([0, 1, 1 + 1e-9, 2, 2, 2, 3]) * 1e-3
    assert groups_of(values).tolist() == [0, 1, 1, 2, 2, 2, 3]
    np.testing.assert_allclose(distances_beyond(values, 5), [3e-3 - 1e-3, 1e-3, 1e-3, 1e-3, 1e-3], rtol=1e-6, atol=2e-3)
    np.testing.assert_allclose(distances_beyond(values, 5)[3:], 1e-3)  # the copy behind the last wanted one is no other
    assert np.isinf(distances_beyond(values[:6], 5)[3:]).all()
    np.testing.assert_allclose(accuracy_of(values, np.zeros(5)).gaps, 1e-3, rtol=1e-5)


def test_entries_in_float32_say_what_is_possible():
    """Eigenvalues of 5e-7 are known to some digits, those of 5e-9 are lost in the rounding, and that is said."""
    for link, lost in ((1e-2, False), (1e-4, True)):
        laplacian, rounded = (graph_laplacian(chain_of_blobs(200, 6, 3, link)) for _ in range(2))
        rounded.transition.data = rounded.transition.data.astype(np.float32)
        found, named = mapped(rounded, 7)
        exact = diffusion_map(laplacian, n_components=7)
        assert (1 in named) == lost and found.angles[0] > 10 * exact.angles[0]
        V, W = (one.coordinates for one in (found, exact))
        sines = np.linalg.norm(V - W * np.sum(V * W, axis=0), axis=0)
        assert (sines <= np.maximum(found.angles, 2.0**-23)).all()  # nothing is claimed beyond float32's own digits
