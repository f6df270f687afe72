"""scikit-learn's own checks on both transformers with 24 other settings: what fails is declared, with the reason."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from ies_gpu import DiffusionMap, IndependentCoordinates

PARTS = "its data are two clusters or more, and a graph in parts is an error by design"
DIRECTIONS = "its data have rows or columns without a direction, which these metrics need"
NO_KERNEL = "its data are products of rows, in which a point is not nearest to itself: no affinities of a map"
NOT_SQUARE = "its matrix with NaN is not square, which is said first; square ones are in test_scikit_learn.py"
TOO_SMALL = "its data have one column or three rows, too few for two dimensions"
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
# settings, and the checks that fail by reason
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
