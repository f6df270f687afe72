"""The transformers as scikit-learn sees them: its own checks, pipelines, names, frames; distances and neighbours."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import ies_gpu
from ies_gpu import DiffusionMap, DisconnectedGraphError, IndependentCoordinates, datasets, load, select_coordinates
from ies_gpu.interop.scikit_learn import few_points_bandwidth
from tests.said import refused, warned

# Checks that are not passed with disconnected="auto". The same table stands in docs/pipelines.md.
IN_PARTS = 'its data, iris, falls into two parts, which is an error by design; with `disconnected="largest"` it passes'
EXCEPTIONS = {"check_positive_only_tag_during_fit": IN_PARTS}
PARTS = "its data are two clusters or more, and a graph in parts is an error by design"
DIRECTIONS = "its data have rows or columns without a direction, which these metrics need"
NO_KERNEL = "its data are products of rows, in which a point is not nearest to itself: no affinities of a map"
NOT_SQUARE = "its matrix with NaN is not square, which is said first; square ones are tested below"
TOO_SMALL = "its data have one column or three rows, too few for two dimensions"
PRECOMPUTED = {
    "check_estimators_nan_inf": NOT_SQUARE,
    "check_array_api_input": "a model of distances has no points to go back to, which inverse_transform says",
}
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
EACH = pytest.mark.parametrize("make", [DiffusionMap, IndependentCoordinates])
QUIET = pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
DOCS = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()


@QUIET
@parametrize_with_checks(
    [
        *(DiffusionMap(), DiffusionMap(metric="precomputed", bandwidth=3.0)),
        *(IndependentCoordinates(), IndependentCoordinates(disconnected="largest")),
    ],
    expected_failed_checks=lambda estimator: (
        PRECOMPUTED if estimator.metric == "precomputed" else EXCEPTIONS if estimator.disconnected == "auto" else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_exceptions_are_written_down_and_still_needed():
    rows = re.findall(r"^\| `(check_\w+)` \|[^|]*\| ([^|]*) \|$", DOCS, flags=re.MULTILINE)
    assert dict(rows) == EXCEPTIONS
    for estimator in (DiffusionMap(), IndependentCoordinates()):
        with refused("graph.disconnected", DisconnectedGraphError):
            estimator.fit(load_iris().data)


# other settings, and the checks that fail with them by reason
IRIS = ["check_positive_only_tag_during_fit"]
ONE_COLUMN = ["check_fit2d_1feature"]
ZERO_ROW = ["check_estimators_dtypes", *ONE_COLUMN]
CLUSTERS = [
    "check_estimators_pickle", "check_pipeline_consistency", "check_transformer_data_not_an_array",
    "check_transformer_general", "check_transformer_preserve_dtypes",
]  # fmt: skip
LINEAR = [
    "check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_estimator_sparse_tag",
    "check_transformer_data_not_an_array", "check_transformer_general", *ONE_COLUMN,
]  # fmt: skip
SMALL = [
    "check_dont_overwrite_parameters", "check_fit2d_predict1d", "check_methods_sample_order_invariance",
    "check_methods_subset_invariance", *ONE_COLUMN,
]  # fmt: skip
NAN = {NOT_SQUARE: ["check_estimators_nan_inf"]}
BOTH = [
    ({"metric": "cosine", "n_components": 3}, {PARTS: IRIS, DIRECTIONS: ZERO_ROW}),
    (
        {"metric": "correlation", "n_components": 3},
        {PARTS: [*IRIS, "check_fit_check_is_fitted", "check_n_features_in"], DIRECTIONS: ZERO_ROW},
    ),
    ({"metric": "precomputed", "bandwidth": 1.0}, NAN),
    ({"metric": "precomputed", "bandwidth": 1.0, "radius": 1e3}, NAN),
    ({"metric": "precomputed", "bandwidth": 1.0, "disconnected": "largest", "n_components": 2}, NAN),
    ({"metric": "precomputed_affinity"}, NAN | {NO_KERNEL: LINEAR}),
    ({"bandwidth": 1.0}, {}),
    ({"bandwidth": 1.0, "radius": 4.0}, {}),
    ({"bandwidth": 1.0, "radius": 1e3}, {}),
    ({"bandwidth": 1.0, "disconnected": "largest", "n_components": 2}, {}),
    ({"n_components": 1}, {PARTS: IRIS}),
    ({"n_components": 2, "disconnected": "largest"}, {}),
    ({"dtype": "float32"}, {PARTS: IRIS}),
    ({"dtype": "mixed", "self_loops": False}, {PARTS: IRIS}),
    ({"n_neighbors": 5}, {PARTS: [*IRIS, *CLUSTERS]}),
    ({"n_neighbors": 10, "n_components": 2, "disconnected": "largest"}, {}),
    ({"alpha": 0.0, "scale": "unit"}, {PARTS: IRIS}),
    ({"scale": "diffusion", "isolated": "nan", "random_state": None}, {PARTS: IRIS}),
]
CHOICE = [
    *(({"search": how}, {PARTS: IRIS}) for how in ("greedy", "submodular", "branch_and_bound")),
    ({"search": "greedy", "disconnected": "largest"}, {}),
    ({"intrinsic_dim": 1, "subset_size": 1, "zeta": 0.5}, {PARTS: IRIS}),
    ({"intrinsic_dim": 2, "subset_size": 2, "percentile": 50}, {PARTS: IRIS, TOO_SMALL: SMALL}),
]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "settings", "declared"),
    [(make, *case) for make in (DiffusionMap, IndependentCoordinates) for case in BOTH]
    + [(IndependentCoordinates, *case) for case in CHOICE],
)
def test_what_fails_is_declared_and_nothing_else(make, settings, declared):
    chooses = make is IndependentCoordinates and settings.get("metric", "").startswith("precomputed")
    estimator = make(**settings, **({"intrinsic_dim": 1, "subset_size": 1} if chooses else {}))
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in found if result["status"] == "failed"}
    failed.pop("check_array_api_input", None)  # its points are no distances, and fall into parts; not run by default
    expected = {check for checks in declared.values() for check in checks}
    if make is IndependentCoordinates and settings == {"metric": "precomputed_affinity"}:  # one coordinate is no noise
        expected -= {"check_transformer_data_not_an_array", "check_transformer_general"}
    assert failed.keys() == expected, {name: failed[name] for name in failed.keys() - expected}
    assert len(found) > 40


@pytest.fixture(scope="module")
def strip():
    return datasets.load("D1", n_samples=1000)


@pytest.fixture(scope="module")
def frame(strip):
    return pandas.DataFrame(strip.X, columns=["x", "y", "z"], index=[f"p{k}" for k in range(1000)])


def chooser(**changes):
    return IndependentCoordinates(**{"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.8} | changes)


def test_it_is_select_coordinates(strip):
    fitted = chooser().fit(strip.X)
    expected = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=0.8)
    assert fitted.selection_.subset == expected.subset
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding)
    np.testing.assert_allclose(fitted.transform(strip.X), expected.embedding, rtol=0, atol=1e-8)
    assert (fitted.bandwidth_, fitted.intrinsic_dim_, fitted.subset_size_) == (0.8, 2, 2)
    every = DiffusionMap(n_components=20, bandwidth=0.8).fit(strip.X)
    np.testing.assert_array_equal(every.embedding_, expected.coordinates)
    np.testing.assert_array_equal(every.eigenvalues_, expected.eigenvalues)
    assert every.get_feature_names_out().tolist() == [f"phi{k}" for k in range(1, 21)]


def test_names_and_frames(frame, tmp_path):
    estimator = chooser().set_output(transform="pandas")
    fitted = estimator.fit_transform(frame)
    names = list(estimator.selection_.names)
    assert names[0] == "phi1" and len(names) == 2
    assert list(fitted.columns) == names and list(fitted.index) == list(frame.index)
    estimator.model_.save(tmp_path / "model.npz")
    again, new = load(tmp_path / "model.npz"), estimator.transform(frame.iloc[5:9])
    assert list(new.columns) == names and list(new.index) == ["p5", "p6", "p7", "p8"]
    np.testing.assert_allclose(new, fitted.iloc[5:9], rtol=0, atol=1e-8)
    np.testing.assert_array_equal(new, again.transform(frame.iloc[5:9]))
    assert estimator.feature_names_in_.tolist() == ["x", "y", "z"] == list(again.feature_names)
    with pytest.raises(ValueError, match="feature names"):
        estimator.transform(frame[["z", "y", "x"]])


@pytest.fixture(scope="module")
def roll():
    """A rolled-up strip, and where along it each point lies."""
    return (data := datasets.load("D3", n_samples=1500)).X, data.truth[:, 0]


@QUIET
def test_a_grid_is_searched(roll):
    pipeline = make_pipeline(StandardScaler(), chooser(), LinearRegression())
    grid = {"independentcoordinates__bandwidth": [0.4, 1.2], "independentcoordinates__subset_size": [2, 3]}
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise").fit(*roll)
    assert search.best_score_ > 0.8  # the first coordinate runs along the roll; in space a straight line is not enough
    assert cross_val_score(make_pipeline(StandardScaler(), LinearRegression()), *roll, cv=folds).max() < 0.5
    assert search.best_params_["independentcoordinates__bandwidth"] == 0.4  # at 1.2 the sheets of the roll touch
    chosen = search.best_estimator_["independentcoordinates"]
    assert chosen.selection_.names == tuple(chosen.get_feature_names_out())


def test_points_left_out_of_the_graph_count_as_new(strip):
    X = np.vstack([strip.X, [[1e3, 0, 0]]])
    for isolated, missing in (("nearest", 0), ("nan", 2)):
        with warned("graph.left_out"):
            fitted = chooser(disconnected="largest", isolated=isolated).fit(X)
        with warned("new_points.isolated"):
            again = fitted.transform(X)
        np.testing.assert_allclose(fitted.embedding_, again, rtol=0, atol=1e-8)
        assert np.isnan(again).sum() == missing == np.isnan(again[-1]).sum()


def test_bandwidths_of_few_points_are_guessed_with_a_warning_and_of_neighbours_measured(strip):
    for estimator in (DiffusionMap(3), IndependentCoordinates()):
        with warned("points.guessed"):
            found = estimator.fit(strip.X[:60])
        assert found.bandwidth_ == few_points_bandwidth(strip.X[:60])
    assert found.subset_size_ == 2
    # points at 0, 1, 3, 4 on a line: the longest edge of the tree is 2, the largest distance 4
    for scale in (1e-200, 1.0, 1e200):
        line = scale * np.array([[0.0], [1.0], [3.0], [4.0]])
        assert few_points_bandwidth(line) == pytest.approx(scale * np.sqrt(8) / 3, rel=1e-12)
    DiffusionMap(3, bandwidth=4.0).fit(strip.X[:60])  # no warning, which would be an error
    with warned("points.fewer_components"):
        assert DiffusionMap(bandwidth=5.0, radius=14.0).fit(strip.X[:15]).embedding_.shape == (15, 13)
    with warned("points.fewer_neighbors"):
        DiffusionMap(4, n_neighbors=20).fit(strip.X[:15])
    # the bandwidth of nearest neighbours is the median distance to the last
    nearest = np.sort(pairwise_distances(strip.X), axis=1)[:, 20]
    assert DiffusionMap(4, n_neighbors=20).fit(strip.X).bandwidth_ == pytest.approx(np.median(nearest), rel=1e-9)


@QUIET
def test_everything_automatic(roll):
    X = roll[0][:700]
    found = IndependentCoordinates(n_components=12).fit(X)
    expected = select_coordinates(X, n_components=12)
    assert found.selection_.subset == expected.subset and found.intrinsic_dim_ == 2
    assert found.bandwidth_ == expected.diagnostics["parameters"]["bandwidth"] == found.model_.bandwidth
    np.testing.assert_allclose(found.transform(X[:50]), found.embedding_[:50], rtol=0, atol=1e-6)
    assert DiffusionMap(n_components=12).fit(X).bandwidth_ == found.bandwidth_


@QUIET
@EACH
def test_parameters_are_checked_in_fit(make, strip):
    wrong = {"isolated": "drop", "disconnected": "all", "dtype": "float16", "bandwidth": -1.0, "tol": 0}
    wrong |= {"random_state": -1} | ({} if make is DiffusionMap else {"subset_size": "x", "intrinsic_dim": 0})
    for name, value in wrong.items():
        made = make(**{name: value})  # never here
        for n in (50, 1000):
            with refused(f"{name}.*", (TypeError, ValueError)):
                made.fit(strip.X[:n])


def test_tables_of_arrays_on_the_device(cupy, strip):
    """Which scikit-learn cannot make: it takes arrays of the host only."""
    points = cupy.asarray(strip.X[:500])
    mapped = DiffusionMap(bandwidth=0.9, n_components=8).fit(points)
    back = mapped.transform(points[:5])
    np.testing.assert_allclose(back.get(), mapped.embedding_[:5].get(), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="2 features"):
        mapped.transform(points[:9, :2])
    with config_context(transform_output="pandas"):
        first = mapped.transform(points[:5])
    for table in (first, mapped.set_output(transform="pandas").transform(points[:5])):
        assert isinstance(table, pandas.DataFrame) and list(table.columns)[:2] == ["phi1", "phi2"]
        np.testing.assert_allclose(table.to_numpy(), back.get(), atol=1e-12)
    assert isinstance(mapped.set_output(transform="default").transform(points[:5]), cupy.ndarray)


def test_precomputed_distances_in_a_search_and_in_parts(strip):
    X, y = strip.X[:300], strip.truth[:300, 0]
    pipe = make_pipeline(chooser(metric="precomputed", n_components=8, disconnected="largest"), LinearRegression())
    search = GridSearchCV(pipe, {"independentcoordinates__bandwidth": [1.5, 2.0]}, cv=3)
    assert search.fit(pairwise_distances(X), y).best_score_ > 0.8  # folds take rows and columns
    apart = pairwise_distances(np.vstack([X, X[:3] + 1000]))
    with warned("graph.left_out"):
        fitted = chooser(bandwidth=1.5, metric="precomputed", disconnected="largest").fit(apart)
    with warned("new_points.isolated"):
        placed = fitted.transform(apart)
    np.testing.assert_allclose(placed[:300], fitted.embedding_[:300], atol=1e-6)


def test_a_diffusion_map_says_nothing_of_a_choice_that_it_does_not_make():
    """Of a cube in five dimensions the choice of coordinates is doubtful."""
    cube = np.random.default_rng(0).uniform(size=(400, 5))
    with warned("choice.doubtful"):
        IndependentCoordinates(n_components=5, device="cpu").fit(cube)
    DiffusionMap(n_components=5, device="cpu").fit(cube)  # a warning would be an error


@pytest.mark.parametrize("estimator", [DiffusionMap(bandwidth=1.2), chooser()])
def test_what_is_no_number_is_named_with_its_row_and_column(estimator, frame):
    spoiled, bare = frame.copy(), frame.to_numpy(copy=True)
    spoiled.iloc[[3, 77], 1], bare[9, 0] = np.nan, np.inf
    for X, words in ((spoiled, "2 rows (3, 77) and 1 column ('y')"), (bare, "1 row (9) and 1 column (0)")):
        with refused("X.not_finite") as caught:
            clone(estimator).fit(X)
        assert words in str(caught.value)
    with refused("X.not_finite"):
        clone(estimator).fit(frame).transform(spoiled)


def same_map(a, b):
    np.testing.assert_allclose(a * np.sign((a * b).sum(axis=0)), b, rtol=0, atol=1e-6)


@pytest.mark.parametrize("self_loops", [True, False])
@EACH
def test_a_map_of_nearest_neighbours_takes_new_points(strip, make, self_loops):
    sizes = SIZES if make is IndependentCoordinates else {"n_components": 4}
    fitted = make(n_neighbors=20, bandwidth=1.0, self_loops=self_loops, **sizes).fit(strip.X)
    np.testing.assert_allclose(fitted.transform(strip.X), fitted.embedding_, rtol=0, atol=1e-6)
    near = fitted.transform(strip.X[:9] + 0.01)
    assert np.abs(near - fitted.embedding_[:9]).max() < 0.2  # near their neighbours


def test_nearest_neighbours_of_scikit_learn_in_a_pipeline(strip):
    """Its graph is one-way, with the zero distance of each point to itself."""
    X, new = strip.X[:500], strip.X[500:700]
    pipe = make_pipeline(
        KNeighborsTransformer(n_neighbors=20, mode="distance"), DiffusionMap(3, metric="precomputed", bandwidth=0.9)
    )
    found = pipe.fit_transform(X)
    kernel = ies_gpu.gaussian_kernel(ies_gpu.knn_graph(X, n_neighbors=20), bandwidth=0.9)
    expected = ies_gpu.diffusion_map(ies_gpu.graph_laplacian(kernel), n_components=3).coordinates * np.sqrt(len(X))
    same_map(found, expected)
    placed = pipe.transform(new)
    nearest = pairwise_distances(new, X).argmin(axis=1)
    assert placed.shape == (200, 3) and np.corrcoef(placed[:, 0], found[nearest, 0])[0, 1] > 0.99
    regression = make_pipeline(*(step for _, step in pipe.steps), LinearRegression())
    assert cross_val_score(regression, X, strip.truth[:500, 0], error_score="raise").min() > 0.5


def test_a_one_way_graph_is_made_symmetric_and_that_is_said(strip):
    one_way = kneighbors_graph(X := strip.X[:700], 20, mode="distance")
    assert abs(one_way - one_way.T).max() > 0
    found = select_coordinates(graph=one_way, bandwidth=0.9, **SIZES)
    both = select_coordinates(graph=ies_gpu.knn_graph(X, n_neighbors=20), bandwidth=0.9, **SIZES)
    np.testing.assert_allclose(found.eigenvalues, both.eigenvalues, rtol=0, atol=1e-9)
    assert any("one-way" in note for note in found.diagnostics["approximations"])
    assert not both.diagnostics["approximations"]
    torn = one_way.tolil()
    torn[0, 1], torn[1, 0] = 1.0, 2.0
    with refused("graph.asymmetric"):
        select_coordinates(graph=torn.tocsr(), bandwidth=0.9, **SIZES)


@pytest.mark.parametrize("kind", ["distances", "distances without loops", "affinities", "sparse affinities"])
@EACH
def test_distances_and_affinities_are_as_good_as_points(strip, make, kind):
    sizes = SIZES | {"untangle": False} if make is IndependentCoordinates else {"n_components": 4}
    X, new = strip.X[:500], strip.X[500:600]
    given, cross = pairwise_distances(X), pairwise_distances(new, X)
    known = {"bandwidth": 1.0, "self_loops": "without" not in kind}
    points = make(**known, **sizes).fit(X)
    if "affinities" in kind:
        given = ies_gpu.gaussian_kernel(ies_gpu.radius_graph(X, radius=3.0), bandwidth=1.0)
        cross, known = np.where(cross <= 3.0, np.exp(-(cross**2)), 0.0), {}
        given, cross = (given, scipy.sparse.csr_array(cross)) if "sparse" in kind else (given.toarray(), cross)
    fitted = make(metric="precomputed_affinity" if "affinities" in kind else "precomputed", **known, **sizes).fit(given)
    same_map(fitted.embedding_, points.embedding_)
    same_map(fitted.transform(cross), points.transform(new))
    assert fitted.bandwidth_ == known.get("bandwidth")
    if known == {}:
        with warned("new_points.isolated"):
            assert np.isnan(fitted.transform(0 * cross)).all()


def test_errors_speak_of_what_was_passed(strip):
    D, known = pairwise_distances(strip.X[:200]), {"metric": "precomputed", "bandwidth": 1.0}
    fitted = DiffusionMap(3, **known).fit(D)
    for code, call in (
        ("bandwidth.missing", lambda: IndependentCoordinates(5, metric="precomputed").fit(D)),
        ("entry.automatic", lambda: IndependentCoordinates(5, **known).fit(D)),
        ("X.affinities", lambda: DiffusionMap(3, **known).fit(np.exp(-(D**2)))),
        ("X.shape", lambda: DiffusionMap(3, **known).fit(D[:, :50])),
        ("X_new.distances", lambda: fitted.transform(-D)),
    ):
        with refused(code):
            call()
    with pytest.raises(ValueError, match="Negative values in data passed to DiffusionMap"):
        DiffusionMap(3, **known).fit(np.where(D > 3, D, -D))


@pytest.mark.parametrize("metric", ["precomputed", "precomputed_affinity"])
def test_what_is_no_number_is_refused_in_a_square_matrix_too(strip, metric):
    D, estimator = pairwise_distances(strip.X[:200]), DiffusionMap(3, metric=metric, bandwidth=2.0)
    fitted = clone(estimator).fit(D if metric == "precomputed" else np.exp(-(D**2) / 4))
    for bad in (np.nan, np.inf):
        D[3, 5] = D[5, 3] = bad
        if metric == "precomputed" and bad == np.inf:  # not neighbours
            assert np.isfinite(estimator.fit_transform(D)).all()
            continue
        with refused("X.not_finite"):
            estimator.fit(D)
        with refused("X_new.not_finite"):
            fitted.transform(D)


@QUIET
@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@EACH
def test_few_points_have_the_bandwidth_of_their_metric(make, metric):
    """Between the longest edge of the tree and the diameter, both in chords; lengths of rows say nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) + [4, 0, 0, 0, 0, 0]
    chords = np.sqrt(2 * np.maximum(pairwise_distances(X, metric=metric), 0))
    found = make(5, metric=metric).fit(X).bandwidth_
    assert np.sort(chords, axis=1)[:, 1].max() / 3 < found < chords.max() / 3
    assert make(5, metric=metric).fit(X * rng.uniform(1, 100, (80, 1))).bandwidth_ == pytest.approx(found)
    if metric == "correlation":  # in two columns it is 1 or -1: the longest edge is the diameter
        assert make(1, metric=metric).fit(X[:21, 1:3]).bandwidth_ == pytest.approx(2 / 3)
