"""``ies-gpu data`` and ``ies-gpu demo``: what they say is true, and what they print works as it stands."""

import re

import numpy as np
import pytest

from ies_gpu import cli, datasets, load

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_data_lists_writes_and_names_the_next_command(tmp_path, capsys):
    assert cli.main(["data"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in datasets.names())
    path = tmp_path / "d1.npy"
    assert cli.main(["data", "d1", "-o", str(path), "--n", "1500", "--seed", "4"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    np.testing.assert_array_equal(np.load(path), datasets.load("D1", n_samples=1500, random_state=4).X)
    assert command[:3] == ["ies-gpu", "fit", str(path)]
    assert cli.main([*command[1:], "--quiet"]) == 0
    assert load(tmp_path / "d1-run.npz").coordinates.shape == (1500, 20)


def test_the_story_of_the_demo_fits_its_run_and_its_files(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert cli.main(["demo", "-n", "2500", "-o", str(folder)]) == 0
    told, selection = capsys.readouterr().out, load(folder / "run.npz")
    assert f"The search chooses {', '.join(selection.names)}: the map loses" in told
    lost = re.search(r"The usual choice: the leading phi1, phi2 lose (\d+)% along their worst direction", told)
    assert int(lost[1]) > 90 and selection.judgement["rank"].level == "good"
    assert ("This sample gives another set" in told) == (selection.subset != (0, 6))
    assert told.splitlines()[-1].split()[:2] == ["ies-gpu", "fit"] and (folder / "report.html").as_uri() in told
    assert max(map(len, told.splitlines())) <= 80 or str(folder) in max(told.splitlines(), key=len)
    assert sorted(path.name for path in folder.iterdir()) == ["points.npy", "report.html", "run.npz"]
    assert np.load(folder / "points.npy").shape == (2500, 3)
