"""What is wrong with a map, on strips whose eigenfunctions are known in closed form (no eigensolver)."""

from dataclasses import replace

import numpy as np
import pytest

import ies_gpu
from ies_gpu import diagnose, plot
from ies_gpu.analysis.diagnose import stretched
from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.choice.faults import collapse
from ies_gpu.findings import question_of
from ies_gpu.results.selection import Ranking, Selection
from tests.manifolds import neumann
from tests.said import refused

SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_threads": 1}
RATIO = 5.3
LABELS, VALUES, _ = neumann(np.zeros((1, 2)), RATIO, 20)


def number(*labels):
    return tuple(map(LABELS.index, labels))


def exact(flat: np.ndarray) -> Selection:
    """The exact eigenfunctions of [0, RATIO] x [0, 1] and their tangent bases as a result."""
    x, y = np.pi * flat[:, 0] / RATIO, np.pi * flat[:, 1]
    norm = np.array([np.sqrt((1 + (a > 0)) * (1 + (b > 0)) / len(flat)) for a, b in LABELS])
    Y = neumann(flat, RATIO, 20)[2] * norm
    dx = np.column_stack([-np.pi * a / RATIO * np.sin(a * x) * np.cos(b * y) for a, b in LABELS]) * norm
    dy = np.column_stack([-np.pi * b * np.cos(a * x) * np.sin(b * y) for a, b in LABELS]) * norm
    U, sigma, _ = np.linalg.svd(np.stack([dx, dy], axis=2), full_matrices=False)
    chosen = number((1, 0), (0, 1))
    return Selection(
        subset=chosen, search_order=chosen, zeta=0.0, zeta_interval=(0.0, None), coordinates=Y, eigenvalues=VALUES,
        laplace_beltrami_eigenvalues=VALUES, path=(), regrets=None, regret_percentiles=np.zeros(0),
        ranking=Ranking(np.zeros((0, 2)), np.zeros(0), np.zeros(0)), log_volumes=None, bases=U,
        singular_values=sigma**2, points=np.arange(len(flat)), diagnostics={},
    )  # fmt: skip


@pytest.fixture(scope="module")
def strip():
    flat = np.random.default_rng(0).uniform(size=(2000, 2)) * [RATIO, 1]
    return flat, exact(flat), ies_gpu.laplacian_of_points(flat, bandwidth=0.25 / 3, radius=0.25)


def test_a_good_map_is_clean_and_one_of_copies_not_without_a_word(strip):
    flat, selection, laplacian = strip
    assert any("copies" in note for note in diagnose(exact(np.repeat(flat[:300], 12, axis=0))).notes)
    for given in (laplacian.matrix, laplacian, None):
        found = diagnose(selection, laplacian=given)
        assert found.clean and found.knots_checked and bool(found.notes) == (given is None)
    assert np.median(found.collapse) < 1.2
    np.testing.assert_allclose(found.volumes, np.exp(selection.score(found.subset)))


def test_what_is_wrong_with_a_map_is_told_apart(strip):
    """Functions of one variable; a line that goes to one point; a fold, which takes x and pi - x to the same place."""
    flat, selection, laplacian = strip
    found = diagnose(selection, laplacian=laplacian, subset=number((1, 0), (2, 0)))
    assert found.counts["dependency"] > 0.5 * len(found.collapse) and found.counts["knot"] == 0
    assert "functionally dependent" in found.verdict
    assert found.flatness.max() < 1e-6  # cos 2x = 2 cos^2 x - 1
    names = ("phi1", f"phi{number((1, 1))[0] + 1}")
    found = diagnose(selection, laplacian=laplacian, subset=names)  # (cos x, cos x cos y): x = pi/2 goes to the origin
    assert len(found.knots) == 1 and found.counts["knot"] == sum(found.counts.values())
    place = flat[found.knots[0]]
    assert np.abs(place[:, 0] - RATIO / 2).max() < 0.1 * RATIO
    assert np.ptp(place[:, 1]) > 0.8  # all along the line
    assert "knotted in 1 place" in found.verdict
    found = diagnose(selection, laplacian=laplacian, subset=number((2, 0), (0, 1)))
    assert found.counts["overlap"] > 500 and found.counts["crossing"] == 0  # a plane has only one tangent plane
    a, b = found.overlaps.T
    far = np.abs(flat[a, 0] - RATIO / 2) > 0.2 * RATIO
    np.testing.assert_allclose(flat[a, 0][far] + flat[b, 0][far], RATIO, atol=0.15 * RATIO)


def test_a_figure_of_eight_crosses_itself():
    """A cylinder over (cos t, sin 2t): two sheets pass through each other at the origin."""
    rng = np.random.default_rng(1)
    t, h = rng.uniform(0, 2 * np.pi, 6000), rng.uniform(0, 1, 6000)
    values = np.array([1.0, 4.0, 4.0, 1.0])  # of cos t, sin 2t, a height, sin t
    Y = np.column_stack([np.cos(t), np.sin(2 * t), 2 * np.cos(np.pi * h), np.sin(t)])
    slopes = np.zeros((6000, 4, 2))
    slopes[:, :, 0] = np.column_stack([-np.sin(t), 2 * np.cos(2 * t), 0 * t, np.cos(t)])
    slopes[:, 2, 1] = -2 * np.pi * np.sin(np.pi * h)
    U, sigma, _ = np.linalg.svd(slopes, full_matrices=False)
    changed = {"coordinates": Y, "eigenvalues": values, "bases": U, "singular_values": sigma**2, "subset": (0, 1, 2)}
    found = diagnose(selection := replace(exact(rng.uniform(size=(6000, 2))), **changed))
    assert found.counts["crossing"] > 10 and found.counts["dependency"] == found.counts["knot"] == 0
    a, b = found.crossings.T
    assert (np.sign(np.sin(t[a])) != np.sign(np.sin(t[b]))).all()  # one on each branch
    assert np.abs(np.cos(t[a])).max() < 0.35 and np.abs(np.cos(t[b])).max() < 0.35  # at the crossing
    # slopes (-1, -2) and (1, -2), the second coordinate over sqrt(4): (-1, -1) and (1, -1), at right angles
    assert np.median(found.angles) > 60
    assert diagnose(selection, subset=(0, 1, 2, 3)).clean  # sin t parts the branches


def test_a_thin_end_is_not_a_knot(strip):
    """A coordinate that shrinks at one end still tells the points apart, which stretching shows."""
    flat, selection, laplacian = strip
    number_y = number((0, 1))[0]
    shrunk = np.exp(-4 * flat[:, 0] / RATIO)  # 1 at the left end, 1/55 at the right
    Y, bases = selection.coordinates.copy(), selection.bases.copy()
    Y[:, number_y] *= shrunk
    bases[:, number_y] *= shrunk[:, None]
    every, chosen = Y / np.sqrt(selection.eigenvalues), selection.subset
    found = collapse(every, chosen, 15)
    end = np.flatnonzero((found.ratio > 3) & (flat[:, 0] > 0.7 * RATIO))
    assert len(end) > 20
    assert stretched(every, chosen, found, laplacian.transition, end).max() < 2
    assert diagnose(replace(selection, coordinates=Y, bases=bases), laplacian=laplacian).clean


def test_curves():
    """d = 1: half a circle is kept by its first function, a whole one is folded by it and needs two."""
    angle = np.random.default_rng(0).uniform(0, np.pi, 800)
    for turn, s, clean in ((1, 1, True), (2, 1, False), (2, 2, True)):
        points = np.column_stack([np.cos(turn * angle), np.sin(turn * angle)])
        fit = ies_gpu.select_coordinates(points, intrinsic_dim=1, subset_size=s, bandwidth=0.1, n_components=6)
        found = diagnose(fit)
        assert found.clean == clean and bool(found.counts["overlap"]) != clean


def test_pictures(strip, tmp_path):
    flat, selection, laplacian = strip
    found = diagnose(selection, laplacian=laplacian, subset=number((1, 0), (1, 1)))
    five = plot.diagnosis(found, points=np.hstack([flat, flat, flat[:, :1]]))
    assert five.axes[1].get_title().endswith("(the first 3 of 5 columns)")
    everywhere = replace(found, knots=(np.arange(len(flat)),))  # no point without a finding
    plot.diagnosis(everywhere).savefig(tmp_path / "a.png")
    with refused("subset.size"):
        plot.diagnosis(replace(found, subset=(0,), embedding=found.embedding[:, :1]))


def test_bad_arguments(strip):
    found = strip[1]
    for code, wrong in (
        ("selection.type", {"selection": np.zeros((3, 2))}),
        ("bases.not_kept", {"selection": replace(found, bases=None)}),
        ("subset.size", {"subset": (0,)}),
        ("laplacian.rows", {"laplacian": ies_gpu.laplacian_of_points(strip[0][:900], bandwidth=0.2)}),
        ("X.rows", {"X": np.eye(5, 2)}),
    ):
        with refused(code, (TypeError, ValueError)):
            diagnose(**{"selection": found} | wrong)


def test_a_flat_map_of_few_points_is_not_called_clean():
    X = ies_gpu.datasets.load("D1", n_samples=400).X
    selection = ies_gpu.select_coordinates(X, **SIZES, bandwidth=0.8)
    for laplacian in (ies_gpu.laplacian_of_points(X, bandwidth=0.8), None):
        found = diagnose(selection, laplacian=laplacian, subset=("phi1", "phi2"))
        assert found.undecided and not found.clean and "overlap found" not in found.verdict
        assert ("pass X" in found.verdict) == (laplacian is None)
        sound = diagnose(selection, laplacian=laplacian, subset=("phi1", "phi7"))
        assert sound.clean and not sound.undecided


def test_the_points_give_the_graph_of_the_run_if_memory_can_hold_it():
    """A run does without the sparse matrix where it is too large, and so must its diagnosis."""
    X = ies_gpu.datasets.load("D1", n_samples=1000).X
    selection = ies_gpu.select_coordinates(X, **SIZES, bandwidth=0.6)
    laplacian = ies_gpu.laplacian_of_points(X, bandwidth=0.6)
    for subset in (("phi1", "phi7"), ("phi1", "phi2")):
        given, found = diagnose(selection, laplacian=laplacian, subset=subset), diagnose(selection, X=X, subset=subset)
        assert found.counts == given.counts and found.notes == given.notes
    entries = len(X) * selection.diagnostics["mean_degree"]
    for free, made in ((200 * entries, True), (40 * entries, False)):
        with CpuBackend(memory_limit=int(free)).active():
            found = diagnose(selection, X=X)
        assert found.clean and (not found.notes) == made


def test_a_knot_is_seen_without_the_points_and_makes_its_run_doubtful():
    """{phi1, phi8} of this strip is tied in a knot: the slope of phi8 over the width changes its sign."""
    X = ies_gpu.datasets.load("D1", n_samples=3000).X
    selection = ies_gpu.select_coordinates(X, **SIZES, bandwidth=0.6, untangle=False)
    assert selection.names == ("phi1", "phi8")
    parts, phi8 = np.array_split(X[:, 0].argsort(), 8), selection.coordinates[:, 7]
    slopes = [np.polyfit(X[part, 1], phi8[part], 1)[0] for part in parts]
    assert min(slopes) < 0 < max(slopes)
    for found in (diagnose(selection, X=X), diagnose(selection)):
        assert found.counts["knot"] > 0 and found.knots_checked and not found.clean
    assert selection.verdict == "doubtful" and selection.judgement["shape"].level == "bad"
    assert [f.code for f in selection.findings if question_of(f) == "shape"] == ["shape.folded"]
    sound = ies_gpu.select_coordinates(X, **SIZES, bandwidth=1.2)
    assert diagnose(sound).clean and sound.judgement["shape"].level == "good"


def test_what_has_no_orientation_is_not_said_to_be_free_of_folds():
    """A Moebius strip: carried around it once, a tangent basis comes back as its mirror image."""
    t, w = np.random.default_rng(0).uniform([0, -0.4], [2 * np.pi, 0.4], size=(2000, 2)).T
    X = np.column_stack([(1 + w * np.cos(t / 2)) * np.cos(t), (1 + w * np.cos(t / 2)) * np.sin(t), w * np.sin(t / 2)])
    selection = ies_gpu.select_coordinates(X, **SIZES, bandwidth=0.15)
    assert selection.judgement["shape"].level != "good" and not diagnose(selection).knots_checked
