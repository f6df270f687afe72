"""The theory's numbers: exact eigenfunctions, the limit theorem on rectangles and flat tori, Lemma 2."""

import numpy as np
import pytest

from benchmarks.paper.theory import areas, flat_torus, lemma_cases, lemma_sides, limit_errors, limit_studies, rectangle


@pytest.mark.parametrize("make", [rectangle, flat_torus])
def test_eigenfunctions_are_orthonormal_and_have_their_eigenvalues_and_gradients(make, rng):
    manifold = make()
    grid = manifold.grid(120)  # the midpoint rule is exact for these waves
    F, J = manifold.functions(grid), manifold.gradients(grid)
    cell = np.prod(manifold.lengths) / len(grid)
    m = F.shape[1]
    np.testing.assert_allclose(cell * F.T @ F, np.eye(m), atol=1e-12)
    energy = cell * np.einsum("nkc,nlc->kl", J, J)  # Dirichlet
    np.testing.assert_allclose(energy, np.diag(manifold.eigenvalues), atol=1e-9)
    assert (np.diff(manifold.eigenvalues) > -1e-9).all()
    flat, h = rng.uniform(0.1, 0.9, (20, 2)), 1e-6
    for side, step in enumerate(h * np.eye(2)):
        numeric = (manifold.functions(flat + step) - manifold.functions(flat - step)) / (2 * h)
        np.testing.assert_allclose(manifold.gradients(flat)[:, :, side], numeric, atol=1e-6)


def test_a_sampled_torus_keeps_short_distances(rng):
    flat, points = flat_torus().sample(500, 0)
    near = flat + 1e-5 * rng.normal(size=flat.shape)
    radii = np.array([2.3, 1.0]) / (2 * np.pi)
    moved = np.concatenate(
        [(r * f(t / r))[:, None] for r, t in zip(radii, near.T, strict=True) for f in (np.cos, np.sin)], 1
    )
    np.testing.assert_allclose(np.linalg.norm(moved - points, axis=1), np.linalg.norm(near - flat, axis=1), rtol=1e-4)


def test_limits_in_closed_form():
    """On a torus whole eigenspaces give orthogonal projections everywhere: R = 0. Two numbers for the rectangle."""
    torus, box = flat_torus(), rectangle()
    assert torus.limit(torus.numbers([(-1, 0), (1, 0), (0, -1), (0, 1)])) == pytest.approx(0, abs=1e-9)
    assert box.limit(box.numbers([(1, 0), (0, 1)])) == pytest.approx(-0.184, abs=1e-3)  # an independent computation
    assert box.limit(box.numbers([(1, 0), (1, 1)])) == pytest.approx(-0.437, abs=1e-3)


def test_turning_a_whole_eigenspace_does_not_change_the_limit(rng):
    torus = flat_torus()
    turn = np.eye(10)
    turn[np.ix_([6, 7, 8, 9], [6, 7, 8, 9])] = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    whole, cut = [0, 1, 6, 7, 8, 9], [0, 1, 6]
    assert torus.limit(whole, turn, cells=60) == pytest.approx(torus.limit(whole, cells=60), abs=1e-9)
    assert torus.limit(cut, turn, cells=60) != pytest.approx(torus.limit(cut, cells=60), abs=1e-3)


def test_matching_finds_shuffled_and_turned_functions(rng):
    torus = flat_torus()
    flat, _ = torus.sample(3000, 0)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    Y = torus.functions(flat)
    Y[:, :2] = Y[:, :2] @ turn
    columns, rotation = torus.matched(Y[:, ::-1], flat)
    assert sorted(columns[:2]) == [8, 9]
    np.testing.assert_allclose(rotation[:2, :2], turn[:, ::-1], atol=0.05)


@pytest.mark.parametrize("case", lemma_cases(), ids=lambda case: f"{case.title}: {case.name}")
def test_lemma_2(case):
    """Both sides meet as the triangles shrink: at least in proportion to their side."""
    errors = [abs(right / left - 1) for left, right in (lemma_sides(case, cells) for cells in (20, 40, 80))]
    assert errors[2] < 0.015
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]


def test_areas_of_triangles(rng):
    assert areas(np.array([[[0, 0], [2, 0], [0, 3]]]))[0] == pytest.approx(3)
    corners = rng.normal(size=(5, 3, 3))
    sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(areas(corners), np.linalg.norm(sides, axis=1) / 2)


@pytest.mark.parametrize(
    ("sizes", "seeds"), [((600, 2400), (0, 1)), pytest.param((1000, 4000, 16_000), (0, 1, 2), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("study", limit_studies(), ids=lambda study: study.title)
def test_the_limit_theorem(study, sizes, seeds):
    steps = [limit_errors(study, n, seeds) for n in sizes]
    for name in study.sets:
        assert (np.diff([step[name].error for step in steps]) < 0).all()
