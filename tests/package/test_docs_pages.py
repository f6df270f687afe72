"""Code blocks of README and the pages run, and all links lead somewhere; ``.ci/run`` installs as README says."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from tests.extras import needed
from tests.thorough import first_of

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
GPU_WORKFLOW = ".github/workflows/gpu.yml"
# blocks that need more than the package: a library, or points of the reader's own
ELSEWHERE = {"scanpy": "test-all", "umap": "umap", "dask": "dask", "dask_cuda": "", "select_coordinates(X)": ""}


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)


def needs(block: str) -> list[str]:
    return [word for word in ELSEWHERE if re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", block)]


PAGES = sorted(page.name for page in DOCS.glob("*.md") if any(not needs(block) for block in blocks(page.name)))


@pytest.mark.parametrize("page", first_of(*PAGES))
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if not needs(block):
            exec(compile(block, page, "exec"), {})


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_the_block_for_biologists(tmp_path, monkeypatch):
    needed("scanpy", "test-all")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    (block,) = (block for block in blocks("pipelines.md") if "scanpy" in needs(block))
    exec(compile(block, "pipelines.md", "exec"), names)
    assert names["cells"].obsm["X_ies"].shape == (700, 2)


@pytest.mark.parametrize(
    "page", sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md"), *RESULTS.glob("*.md")]), ids=lambda page: page.name
)
def test_links_lead_somewhere_and_anchors_are_headings(page):
    """As GitHub and the site make anchors from headings; the site knows no others."""
    if page.relative_to(DOCS.parent).parts[:2] == ("docs", "_build"):
        pytest.skip("made by a build of the site")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert target.startswith("http") or file.exists(), target
        if anchor and file.suffix == ".md" and page.parent == DOCS:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, anchor


def test_notebook_and_workflow_start_what_was_rehearsed():
    """``.ci/gpu``, through CuPy on the CPU: ``IES_GPU_EMULATED=1 IES_GPU_SIZES=400 bash .ci/gpu``."""
    notebook, workflow = ((DOCS.parent / name).read_text() for name in ("benchmarks/gpu.ipynb", GPU_WORKFLOW))
    assert "bash .ci/gpu gpu-report" in notebook and "bash .ci/gpu gpu-report" in workflow
    for extra in ("cuda12", "cuda13"):  # the wheel that is there: two do not work side by side
        assert f"echo {extra}" in notebook


def test_the_workflow_for_a_gpu_starts_when_somebody_asks_and_may_only_read():
    """GitHub claims the concurrency of a whole workflow before it looks at ``if``: any label would end a run."""
    text = (DOCS.parent / GPU_WORKFLOW).read_text()
    flow = yaml.safe_load(text)
    assert flow[True] == {"workflow_dispatch": None, "pull_request": {"types": ["labeled"]}}  # YAML takes "on" for true
    (job,) = flow["jobs"].values()
    for name, label, starts in (("workflow_dispatch", "", 1), ("pull_request", "gpu", 1), ("pull_request", "docs", 0)):
        event = SimpleNamespace(label=SimpleNamespace(name=label))
        github = SimpleNamespace(event_name=name, event=event)
        assert eval(job["if"].replace("||", "or"), {"github": github}) == starts
    assert "concurrency" not in flow and job["concurrency"]["cancel-in-progress"]
    assert flow["permissions"] == {} and job["permissions"] == {"contents": "read"} and "secrets." not in text


def test_the_python_of_the_readme_runs_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks("../README.md"):
        exec(compile(block, "README.md", "exec"), namespace)
    out, (shown,) = capsys.readouterr().out, blocks("../README.md", "text")
    assert out.splitlines()[:2] == shown.splitlines()[:2]  # the set and the verdict
    answers = [[line.split()[:2] for line in text.splitlines()[2:8] if line[2:3].strip()][:3] for text in (out, shown)]
    assert answers[0] == answers[1]


def test_the_command_lines_of_the_readme_run(tmp_path):
    lines = [line for block in blocks("../README.md", "bash") for line in block.splitlines() if line]
    commands = [line for line in lines if line.startswith("ies-gpu ")]
    assert [line for line in lines if line.startswith("python3 -m venv")] == [x for x in lines if x not in commands]
    for line in commands:
        command = [sys.executable, "-m", "ies_gpu", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "run.npz").exists()


def test_no_claim_of_a_gpu_run():
    for path in [DOCS.parent / "README.md", *DOCS.glob("*.md")]:
        assert not re.search(r"(tested on|measured on a|timed on a|tested on a) gpu", path.read_text().lower()), path


@pytest.mark.thorough
def test_what_an_example_defines_for_spectra(tmp_path, monkeypatch, capsys):
    """Flux equal to its wavelength at rest, seen at a redshift of 0.25, with channels that were not measured."""
    monkeypatch.chdir(tmp_path)
    defined = runpy.run_path(str(DOCS.parent / "examples" / "fields" / "spectra.py"), run_name="__main__")
    assert "(2000, 10)\nSelection of phi1" in capsys.readouterr().out
    Table, fits = needed("astropy.table", "astro").Table, needed("astropy.io.fits", "astro")
    seen = np.linspace(5000, 8000, 301)
    flux, ivar = seen / 1.25, np.ones(301)
    flux[60:63], ivar[60:63] = -99, 0
    tables = Table({"loglam": np.log10(seen), "flux": flux, "ivar": ivar}), Table({"Z": [0.25]})
    fits.HDUList([fits.PrimaryHDU(), *map(fits.table_to_hdu, tables)]).writeto("spec.fits")
    at = np.linspace(4100, 6300, 50)
    np.testing.assert_allclose(defined["read_sdss"]("spec.fits", at), at)
