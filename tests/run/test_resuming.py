"""What a run takes from a checkpoint: every entry, storage and device, and what was found automatically."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import CheckpointWarning, datasets, radius_graph, select_coordinates
from ies_gpu.backend.kernels import plain
from ies_gpu.embedding.given import gaussian_kernel
from ies_gpu.embedding.laplacian import graph_laplacian
from tests.comparison import assert_equal_selections, resumed, stored_as
from tests.said import warned
from tests.thorough import first_of

from .conftest import OPTIONS, forget

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_warnings_are_given_again(points, tmp_path):
    X, options = np.vstack([points, [[90.0, 0, 0], [90.1, 0, 0]]]), OPTIONS | {"disconnected": "largest"}
    found = []
    for resume in (False, True):
        with warned("graph.left_out") as caught:
            found.append(select_coordinates(X, **options, checkpoint=tmp_path, resume=resume))
    assert_equal_selections(*found)
    assert len(caught) == 1 and len(found[1].points) == 900


def test_a_run_that_fell_back_to_plain_code_stays_there(points, tmp_path, monkeypatch):
    """An audit that failed before the run was killed counts for what comes after it."""
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    monkeypatch.setenv("IES_GPU_KERNELS", "")

    def wrong():
        """Numba's kernels, but for a product that is off."""
        return SimpleNamespace(**vars(fused) | {"spmm": lambda *arguments: 1.001 * fused.spmm(*arguments)})

    monkeypatch.setattr("ies_gpu.backend.cpu.load_kernels", wrong)
    found = []
    for resume in (False, True):
        with warned("kernel.differs"):
            found.append(select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=resume))
        assert found[0].diagnostics["kernels"] == plain.NAME
        forget(tmp_path, 2)
    assert resumed(found[1]) == ["graph", "laplacian"]
    assert_equal_selections(*found)


def test_every_entry_can_be_resumed(points, uninterrupted, tmp_path):
    graph = radius_graph(points, radius=1.8)
    kernel = gaussian_kernel(graph, bandwidth=0.6)
    embedding = {"coordinates": uninterrupted.coordinates, "eigenvalues": uninterrupted.eigenvalues}
    for number, given in enumerate((
        {"graph": graph, "bandwidth": 0.6}, {"kernel": kernel, "bandwidth": 0.6},
        {"laplacian": graph_laplacian(kernel, bandwidth=0.6), **embedding},
        {"laplacian": graph_laplacian(kernel).matrix, **embedding},
    )):  # fmt: skip
        job = given | {"intrinsic_dim": 2, "subset_size": 3, "checkpoint": tmp_path / str(number)}
        first = select_coordinates(**job)
        (job["checkpoint"] / "search.npz").unlink()
        again = select_coordinates(**job, resume=True)
        assert_equal_selections(first, again)
        saved = ["graph", "eigenvectors", "tangents", "laplacian"]  # the last for the verdict, which asks the graph
        assert resumed(again) == (["tangents"] if "laplacian" in given else saved)


@pytest.mark.parametrize("storage", ["tiles", "recomputed"])
def test_graphs_without_a_matrix_keep_their_eigenvectors(tmp_path, monkeypatch, storage):
    """A kernel in tiles is computed again; what was computed with it is not."""
    X = datasets.load("D1", n_samples=600).X
    options = OPTIONS | {"bandwidth": 1.2}
    stored_as(monkeypatch, storage)
    first = select_coordinates(X, **options, checkpoint=tmp_path)
    assert first.diagnostics["approximations"]
    assert not (tmp_path / "laplacian.npz").exists()
    for kept, expected in ((4, ["graph", "eigenvectors", "tangents"]), (3, ["graph", "eigenvectors"]), (2, ["graph"])):
        forget(tmp_path, kept)
        again = select_coordinates(X, **options, checkpoint=tmp_path, resume=True)
        assert_equal_selections(first, again)
        assert resumed(again) == expected


def test_the_memory_budget_belongs_to_the_job(points, tmp_path, monkeypatch):
    """Block lengths decide about the order of sums: a machine that is fuller after the restart must not matter."""
    free = [400 << 20]
    monkeypatch.setattr("ies_gpu.backend.cpu.available_memory", lambda: free[0])
    first = select_coordinates(points, **OPTIONS, checkpoint=tmp_path)
    forget(tmp_path, 2)
    free[0] = 100 << 20
    assert_equal_selections(first, select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=True))


def test_a_run_on_the_device_goes_on_there_and_not_elsewhere(cupy, points, tmp_path):
    points, options = points[::3], OPTIONS | {"bandwidth": 1.2, "n_components": 6}
    first = select_coordinates(points, **options, device="cuda")
    saved = select_coordinates(points, **options, device="cuda", checkpoint=tmp_path)
    assert saved.diagnostics["device"] == "cuda:0"
    assert_equal_selections(first, saved)
    for kept, expected in ((4, ["graph", "eigenvectors", "tangents"]), (3, ["graph", "eigenvectors", "laplacian"])):
        forget(tmp_path, kept)
        again = select_coordinates(points, **options, device="cuda", checkpoint=tmp_path, resume=True)
        assert resumed(again) == expected
        assert_equal_selections(first, again)
    on_device = select_coordinates(cupy.asarray(points), **options, checkpoint=tmp_path, resume=True)
    assert resumed(on_device)[-1] == "search" and isinstance(on_device.coordinates, cupy.ndarray)
    with warned("checkpoint.other_job", CheckpointWarning) as caught:
        found = select_coordinates(points, **options, device="cpu", checkpoint=tmp_path, resume=True)
    assert "device cuda there, cpu here" in caught[0].text and resumed(found) == []


@pytest.mark.parametrize("kernels", first_of("", "plain"))
def test_what_was_found_automatically_is_saved_too(tmp_path, monkeypatch, kernels):
    """The scan is not repeated, and the result is that of a run without a folder."""
    monkeypatch.setenv("IES_GPU_KERNELS", kernels)
    X = datasets.load("D1", n_samples=1200).X
    asked = {"intrinsic_dim": "auto", "bandwidth": "auto", "n_components": 12}  # and the size: several are searched
    usual = select_coordinates(X, **asked)
    first = select_coordinates(X, **asked, checkpoint=tmp_path)
    again = select_coordinates(X, **asked, checkpoint=tmp_path, resume=True)
    assert resumed(first) == [] and resumed(again)[0] == "automatic"
    for found in (first, again):
        assert_equal_selections(usual, found)


def test_the_documented_stages_are_those_of_a_job(tmp_path, capsys):
    from ies_gpu import cli

    page = Path(__file__).parents[2] / "docs" / "jobs.md"
    np.save(tmp_path / "points.npy", datasets.load("D1", n_samples=900).X)
    files = ["-o", str(tmp_path / "run.npz"), "--checkpoint", str(tmp_path / "saved"), "--resume"]
    for _ in range(2):
        assert cli.main(["fit", str(tmp_path / "points.npy"), "-m", "10", *files, "--log-format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    sentences = page.read_text().partition("Stages are ")[2].partition("\n\n")[0]
    named = {line["stage"].split()[0] for line in lines if "stage" in line}  # "resume graph" is documented in general
    assert named == set(re.findall(r"`(\w+)(?: STAGE)?`", sentences))
    assert {"checkpoint graph", "resume graph"} <= {line.get("stage") for line in lines}


def test_stages_of_an_automatic_run_do_not_hide_those_of_this_job(tmp_path):
    """The file of what was found stays behind when the numbers are given next; the job's own stages are taken."""
    X = datasets.load("D1", n_samples=900).X
    select_coordinates(X, bandwidth="auto", intrinsic_dim=2, subset_size=2, n_components=10, checkpoint=tmp_path)
    given = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
    with warned("checkpoint.other_job", CheckpointWarning):
        select_coordinates(X, **given, checkpoint=tmp_path, resume=True)
    again = select_coordinates(X, **given, checkpoint=tmp_path, resume=True)
    assert again.diagnostics["checkpoint"]["resumed"] == ["graph", "eigenvectors", "tangents", "search"]
    assert not again.diagnostics["checkpoint"]["notes"]
