"""What is released: the citation, and (slow: two minutes, and downloads) a wheel and an sdist that work elsewhere."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import ies_gpu

ROOT = Path(__file__).resolve().parents[2]


def test_the_citation_is_of_the_paper_that_the_readme_names_and_has_no_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited) and "version" not in cited
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert cited["preferred-citation"]["url"] in readme and cited["preferred-citation"]["title"] in readme


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed; nothing of this checkout is on its path."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "IES_GPU", "NUMBA_CACHE", "VIRTUAL"))}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with the wheel and the sdist; the wheel is made from the sdist, as ``build`` does it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.mark.slow
def test_a_clean_environment_runs_the_wheel(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", "-q", wheel, cwd=tmp_path)
    for line, word in (
        ("--version", f"ies-gpu {ies_gpu.__version__}"),
        ("data D1 --n 2000 -o d1.npy", "d1.npy"),
        ("fit d1.npy -d 2 -s 2 --bandwidth 0.56 -o d1.npz", "phi1"),
        ("show d1.npz", "phi1"),
    ):
        assert word in run(programs / "ies-gpu", *line.split(), cwd=tmp_path)
    run(programs / "pip", "check", cwd=tmp_path)


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(built):
    (wheel,) = built.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ies_gpu/")}
    files = [file for file in (ROOT / "ies_gpu").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert held == {file.relative_to(ROOT).as_posix() for file in files}
    assert "ies_gpu/py.typed" in held and any(name.endswith(".cu") for name in held)


@pytest.mark.slow
def test_the_sdist_brings_its_tests(built, tmp_path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    # these read README, docs, docker and the package beside them
    names = ("package/test_layers", "package/test_docs_pages", "package/test_docker", "package/test_release")
    files = [tree / "tests" / f"{name}.py" for name in (*names, "choice/test_criterion")]
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, cwd=tree)
