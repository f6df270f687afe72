"""The comparisons with plain code see what they are for; a kernel that differs is not used, and only that one."""

import sys
import tracemalloc
import warnings
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import ies_gpu
import ies_gpu.embedding.diffusion
from ies_gpu import radius_graph
from ies_gpu.backend import array, backend_of, compare
from ies_gpu.backend.compare import ROWS, TYPES, Kernels
from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch
from ies_gpu.findings import OutOfMemoryError
from ies_gpu.run.run import AUDIT_TOLERANCE
from tests.backends import needs_cupy, on_cpu, on_cuda
from tests.comparison import assert_agreement
from tests.real_cupy import compiler, plugged_in
from tests.thorough import first_of

EVERY = [(kernel, *types) for kernel, kinds in TYPES.items() for types in kinds]


def test_plain_code_in_the_place_of_a_kernel_takes_little_memory(rng):
    """Blocks are sized for kernels, which take next to nothing for a row."""
    U, sets = rng.normal(size=(1500, 70, 2)), np.array(list(combinations(range(70), 2)), dtype=np.int32)
    P, Y = scipy.sparse.random(1500, 1500, 0.1, format="csr", rng=rng), rng.normal(size=(1500, 40))
    faulty = Kernels("cuda:0")
    faulty.faults[""] = "none runs"
    scored = U, sets, np.zeros(len(sets)), np.empty(1500, dtype=np.int64), np.empty(1500)
    rows = P.indptr, P.indices, P.data, Y, np.arange(1500), 2
    for work in (
        lambda: launch.score_block(*scored),  # more coordinates than the kernel takes
        lambda: faulty.score_block(*scored),
        lambda: faulty.tangent_rows(*rows),
    ):
        tracemalloc.start()
        work()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 1.5 * array.PART_BYTES


def test_scores(rng):
    U = np.linalg.qr(rng.normal(size=(50, 6, 2)))[0]
    U[:, 0] = U[:, 1] = 0  # the set of both is all rounding
    sets = np.array(list(combinations(range(6), 2)))
    totals, best, score = np.zeros(len(sets)), np.empty(50, dtype=int), np.empty(50)
    plain.score_block(U, sets, totals, best, score)
    assert compare.score_difference(U, sets, totals, best, score) == 0
    assert compare.score_difference(U, sets, totals + 50 * (np.arange(len(sets)) == 0), best, score) == 0
    assert compare.score_difference(U, sets, totals + 0.5, best, score) == pytest.approx(0.01)
    assert compare.score_difference(U, sets, totals, best, score - 0.01) > 1e-3
    assert compare.score_difference(U, sets, totals, 0 * best, score) > 0.1
    assert compare.score_difference(U, sets, totals, best, np.where(np.arange(50) != 3, score, np.nan)) == np.inf


def test_rows_of_a_graph(rng):
    X = rng.uniform(size=(200, 3))
    graph = radius_graph(X, radius=0.4)
    row, where = np.append(graph.data[graph.indptr[7] : graph.indptr[8]], 0.0), np.array([7])

    def off(stored):
        return compare.graph_difference(X, where, np.array([0, len(stored)]), stored, 0.4)

    assert off(row) < 1e-15
    assert off(row[1:]) > 1e-3
    assert off(1.001 * row) == pytest.approx(1e-3 * row.mean() / 0.4)
    assert off(row * np.nan) == np.inf
    inside, outside = np.array([[0.0], [0.399999]]), np.array([[0.0], [0.400001]])  # sums of distances hardly tell
    assert compare.graph_difference(inside, np.array([0]), np.array([0, 1]), np.zeros(1), 0.4) == 0.5
    assert compare.graph_difference(outside, np.array([0]), np.array([0, 2]), np.array([0, 0.4]), 0.4) == 1
    on_the_sphere, ends = np.array([[0.0], [0.4], [1.0]]), np.array([0, 2, 3])
    assert compare.graph_difference(on_the_sphere, np.array([0, 2]), ends, np.array([0, 0.4, 0]), 0.4) < 1e-12
    assert compare.graph_difference(on_the_sphere, np.array([0, 2]), ends - [0, 1, 1], np.zeros(2), 0.4) < 1e-12


def broken(kernel: str, change):
    """A kernel whose last array, of what it returns or writes, is changed afterwards in one place."""
    original = getattr(launch, kernel)

    def run(*arguments, **more):
        found = original(*arguments, **more)
        written = {"score_block": 4, "scaled_entries": 2, "turn": 1, "orthonormal": 3}
        results = found if isinstance(found, tuple) else (found,)
        last = (arguments[written[kernel]] if kernel in written else results[-1]).ravel()
        last[-1] = change(last[-1])
        return found

    return run


@needs_cupy
@pytest.mark.parametrize(("kernel", "types"), [(kernel, tuple(types)) for kernel, *types in EVERY])
def test_every_kernel_is_compared_before_its_first_use(kernel, types, machine):
    """Wrong in one place, or not a number there: it is not used, and the others are."""
    assert Kernels("cuda:0").trusted(kernel, *types)
    for change in (lambda number: number + abs(number) + 1, lambda _: np.nan):
        if kernel == "smallest_labels" and np.isnan(change(0)):
            continue  # they are whole numbers
        kernels = Kernels("cuda:0", SimpleNamespace(**vars(launch) | {kernel: broken(kernel, change)}))
        with pytest.warns(ies_gpu.IESWarning):
            assert not kernels.trusted(kernel, *types)
        assert kernels.trusted("turn" if kernel == "descend" else "descend") and not kernels.trusted(kernel, *types)
        (said,) = kernels.complaints()
        assert said.code == "kernel.not_used" and kernel in said.text


@needs_cupy
def test_every_text_is_compared_under_every_name_by_which_it_is_used(machine):
    """No entry point is left out, and what a run asks for is in the table of types."""
    for kernel, *types in EVERY:
        assert Kernels("cuda:0").trusted(kernel, *types)
    entries = {entry for entries in compare.launch.text.ENTRIES.values() for entry in entries}
    assert [entry for entry in entries if not machine.counts[f"kernel {entry}"]] == []
    for dtype in ("float64", "mixed", "float32"):
        kernels = backend_of(sys.modules["cupy"].zeros(1)).kernels
        kernels.compared.clear()
        on_cuda("D1", 450, n_components=6, dtype=dtype)
        assert kernels.compared <= {" ".join(map(str, one)) for one in EVERY}


@needs_cupy
@pytest.mark.thorough  # compiles every kernel once more
def test_the_tolerance_survives_fused_multiply_add():
    """A GPU rounds a product and a sum once; g++ does too when it is told to. What differs stays far below."""
    if not compiler.has_fused_multiply_add():
        pytest.skip("this processor has no fused multiply-add")
    found = []
    for contracted in (False, True):
        with plugged_in(contracted=contracted):
            cupy = sys.modules["cupy"]
            found.append([compare.kernel_difference(launch, cupy, kernel, types) for kernel, *types in EVERY])
    assert found[0] != found[1]
    for (kernel, *types), apart in zip(EVERY, found[1], strict=True):
        assert apart <= compare.tolerance(types) / 10, kernel


def quietly(*args, **kwargs) -> tuple[ies_gpu.Selection, list[str]]:
    """A run on the device, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = on_cuda(*args, **kwargs)
    return found, [str(warning.message) for warning in caught]


def codes(found: ies_gpu.Selection) -> list[str]:
    return [said.code for said in found.findings if said.code.startswith("kernel.")]


@needs_cupy
def test_kernels_that_do_not_compile_give_way_to_plain_code():
    with plugged_in(compiles=False):
        found, said = quietly("D1", 450, n_components=6)
        assert len(said) == 1 and codes(found) == ["kernel.not_used"]
        assert found.diagnostics["kernels"] == "plain"
        assert "does not run (kernel.cu(1): error" in found.diagnostics["kernel_fault"]
        assert_agreement(found, on_cpu("D1", 450, n_components=6))
        again, said_again = quietly("D1", 450, n_components=6)
        assert said_again == []  # said once for each device
        assert codes(again) == ["kernel.not_used"]  # but kept with every result


@needs_cupy
def test_one_wrong_kernel_does_not_switch_off_the_others(monkeypatch):
    monkeypatch.setattr(launch, "tangent_rows", broken("tangent_rows", lambda number: number + 0.01))
    with plugged_in() as machine:
        found, said = quietly("D1", 700)
    assert len(said) == 1 and codes(found) == ["kernel.not_used"]
    assert found.diagnostics["kernels"] == "cuda" and "tangent_rows" in found.diagnostics["kernel_fault"]
    assert machine.counts["kernel tangent_rows_f64"] == 1  # that of the comparison
    assert machine.counts["kernel score_block_2_f64"] > 1
    assert_agreement(found, on_cpu("D1", 700))


def spoiled(entry: str, place: int, change, large: int = ROWS):
    """Changes what a kernel of ours wrote, where it wrote more than the small inputs take."""

    def spoil(name, values):
        written = values[place]
        if name.startswith(entry) and not isinstance(written, np.generic) and len(written) > large:
            change(written)

    return spoil


def scaled_by(factor: float):
    return lambda array: array.__imul__(factor)


# wherever it stands: here in a row that is not among the sampled ones
UNSEEN = int(np.setdiff1d(np.arange(700), np.random.default_rng(700).choice(700, size=ROWS, replace=False))[0])
SPOILED = {
    "tangent_rows": spoiled("tangent_rows", -1, scaled_by(1.001)),
    "score_block": spoiled("score_block", -1, lambda scores: scores.__iadd__(0.01)),
    "tile_graph": spoiled("near_pairs", -1, scaled_by(1.001), 5000),
    "spmm": spoiled("product_f64_f64", -2, scaled_by(1.001)),
    "tangent_rows, one nan": spoiled("tangent_rows", -1, lambda sigma: sigma.__setitem__(UNSEEN, np.nan)),
    "score_block, one inf": spoiled("score_block", -1, lambda scores: scores.__setitem__(UNSEEN, np.inf)),
}


@needs_cupy
@pytest.mark.parametrize("what", SPOILED)
def test_the_audit_finds_what_is_wrong_on_many_rows_or_not_finite_in_one(what):
    with plugged_in(spoil=SPOILED[what]):
        found, said = quietly("D1", 700)
    kernel, _, one = what.partition(", ")
    assert len(said) == 1 and codes(found) == ["kernel.differs"]  # afterwards all of the run is plain
    apart = found.diagnostics["audit"][kernel]
    assert apart == np.inf if one else AUDIT_TOLERANCE["float64"] < apart < 0.1
    assert found.diagnostics["kernels"] == "plain"
    assert_agreement(found, on_cpu("D1", 700))


@needs_cupy
@pytest.mark.parametrize("failure", first_of(OutOfMemoryError("too little"), np.linalg.LinAlgError("no convergence")))
def test_an_audit_that_fails_does_not_end_a_sound_run(failure, machine, monkeypatch):
    def fails(*_):
        raise failure

    expected = on_cpu("D1", 700)
    monkeypatch.setattr(compare, "kernel_difference", lambda *_: 0.0)
    monkeypatch.setattr(compare, "tangent_difference", fails)
    found, said = quietly("D1", 700)
    assert len(said) == 1 and "was not compared" in said[0]
    assert found.diagnostics["kernels"] == "cuda" and "tangent_rows" not in found.diagnostics["audit"]
    assert_agreement(found, expected)


@needs_cupy
def test_eigenvectors_that_are_not_finite_are_an_error(machine, monkeypatch):
    original = ies_gpu.embedding.diffusion.leading_eigenpairs

    def wrong(*args, **kwargs):
        pairs = original(*args, **kwargs)
        pairs.residuals[3] = np.nan
        return pairs

    monkeypatch.setattr(ies_gpu.embedding.diffusion, "leading_eigenpairs", wrong)
    with pytest.raises(ArithmeticError, match="computed on cuda:0 are not finite"):
        on_cuda("D1", 700)
