"""The demo: what it says is true of the run it tells about, and its files are there."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ies_gpu import load
from ies_gpu.cli.data import tell_story

pytestmark = pytest.mark.usefixtures("plain_kernels")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A small run of the demo: folder, lines, selection."""
    folder, lines = tmp_path_factory.mktemp("demo") / "new" / "folder", []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        selection = tell_story(folder, 2500, say=lines.append)
    return folder, lines, selection


def test_files(story):
    folder, _, selection = story
    assert sorted(path.name for path in folder.iterdir()) == ["points.npy", "report.html", "run.npz"]
    assert load(folder / "run.npz").subset == selection.subset
    assert np.load(folder / "points.npy").shape == (2500, 3)


def test_the_story_fits_the_run(story):
    folder, lines, selection = story
    told = "\n".join(lines)
    assert f"The search chooses {', '.join(selection.names)}: the map loses" in told
    lost = re.search(r"The usual choice: the leading phi1, phi2 lose (\d+)% along their worst direction", told)
    assert int(lost[1]) > 90 and selection.judgement["rank"].level == "good"
    assert ("This sample gives another set" in told) == (selection.subset != (0, 6))
    assert lines[-1].split()[:2] == ["ies-gpu", "fit"]
    assert (folder / "report.html").as_uri() in told
    assert max(map(len, lines)) <= 80 or str(folder) in max(lines, key=len)
