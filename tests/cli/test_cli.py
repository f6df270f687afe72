"""The command line: what it prints where, its exit status, and one line for every error."""

import json

import numpy as np
import pytest

from ies_gpu import cli

from .conftest import FIT, HOPELESS

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_doctor_tells_the_device_and_why(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["device"] and facts["device_reason"] and facts["cores"] >= facts["threads"] >= 1
    assert facts["versions"]["numpy"] == np.__version__ and facts["memory_free"] > 1 << 20
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert facts["device"] in out
    assert "has not been run on a GPU" in facts["gpu_status"] and facts["gpu_status"] in " ".join(out.split())


def test_errors_are_one_line_and_have_a_status(points, capsys):
    for arguments, status, message in (
        (["frobnicate"], 2, "invalid choice: 'frobnicate'"),
        (["fit"], 2, "required: POINTS"),
        (["fit", "{points}", "-d", "21"], 2, "-d must be an integer between 1 and 20 (-m is 20), got 21"),
        (["fit", "{points}", "--radius", "2"], 2, "--radius 2 needs a number for --bandwidth too"),
        (["fit", "{points}", *FIT, "--bandwidth", "wide"], 2, "greater than 0, 'auto', 'fixed' or 'local', got 'wide'"),
        (["fit", "{points}", *FIT, "--memory-limit", "12"], 2, "(on the command line also 4G or 500M)"),
        (["fit", "{points}", "-d", "2", "-s", "10", "-m", "100", "--bandwidth", "1"], 2, "or use --search greedy"),
        (["fit", "{points}", *FIT, "--dry-run", "--scheduler", "tcp://node1:8786"], 2, "leave out --scheduler"),
        (["fit", "{points}", *FIT, "-o", "run.txt"], 2, "-o must end in .npz"),
        (["fit", "{points}", *HOPELESS, "-o", "no/run.npz"], 1, "does not exist"),  # said before the run
        (["fit", "{points}", *HOPELESS, "--plot", "map.txt"], 2, "--plot must end in .png, .pdf or .svg, got map.txt"),
        (["fit", "nowhere.npy", *FIT], 1, "nowhere.npy does not exist"),
        (["fit", "{points}", *FIT, "--bandwidth", "0.001"], 1, "have no neighbour within --radius 0.003"),
        # and not by the number of neighbours in the estimate of the time
        (["fit", "{points}", *FIT, "--bandwidth", "1000"], 1, "connects every sampled point to all 1500 points"),
        (["fit", "{points}", *FIT, "-m", "1499"], 1, "too few for -m 1499, which may be 1498 at most"),
        (["show", "{points}"], 1, "is not an .npz file"),
        (["data", "D99"], 2, "there is no data set 'D99'"),
        (["data", "-o", "x.npy"], 2, "put its NAME"),
        (["data", "D1", "-o", "x.xls"], 2, "-o must end in .npy or .csv"),
        # what was meant
        (["fit", "x.npy", "--bandwith", "3"], 2, "unknown option --bandwith; did you mean --bandwidth?"),
        (["fit", "x.npy", "--subset_size=3"], 2, "did you mean --subset-size?"),
        (["fit", "x.npy", "--xyz"], 2, "unknown option --xyz (see 'ies-gpu fit --help')"),
        (["fit", "x.npy", "y.npy"], 2, "unrecognized arguments: y.npy"),
    ):
        assert cli.main([argument.format(points=points) for argument in arguments]) == status
        *others, last = capsys.readouterr().err.splitlines()
        assert last.startswith("ies-gpu: error: ") and message in last
        assert "nowhere" not in message or "no -o" not in "".join(others)  # a missing input comes first


def test_unexpected_errors_name_their_kind_and_debug_raises():
    assert cli.sentence(ZeroDivisionError("0")) == "ZeroDivisionError: 0 (unexpected; --debug shows the traceback)"
    assert "--memory-limit" in cli.sentence(MemoryError())
    with pytest.raises(FileNotFoundError):
        cli.main(["fit", "nowhere.npy", *FIT, "--debug"])


def test_help_fits_80_columns_also_for_those_who_type_nothing_or_help(capsys, columns):
    names = [[name, "--help"] for name in cli.COMMANDS]
    for words in ([], ["help"], ["--help"], ["help", "show"], *names):
        assert cli.main(words) == 0
        out = capsys.readouterr().out
        assert "usage: ies-gpu" in out and max(map(len, out.splitlines())) <= 80, words
        assert ("usage: ies-gpu show" in out) == ("show" in words)
    assert cli.main(["help", "nothing"]) == 2


@pytest.mark.parametrize(("header", "column"), [("", "2"), ("a,b,c", "'c'")])
def test_what_is_no_number_is_named_without_python(header, column, tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7, 2] = np.nan
    np.savetxt(tmp_path / "points.csv", X, delimiter=",", header=header, comments="")
    assert cli.main(["fit", str(tmp_path / "points.csv"), "--bandwidth", "1", "-d", "1", "-s", "1"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert f"in 1 row (7) and 1 column ({column}); remove these rows (counted from 0) from the file" in told
    assert "[" not in told and ("points.csv contains" in told) == bool(header)
