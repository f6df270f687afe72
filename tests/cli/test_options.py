"""Values of options, and names that are misspelt."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from ies_gpu import cli
from ies_gpu.cli.options import count, size

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_whole_numbers_may_have_an_exponent():
    assert [count(text) for text in ("7", "1e6", "2.5E3")] == [7, 10**6, 2500]
    for text in ("1.5", "1e-3", "2.55e1", "1e999", "0", "-3"):
        with pytest.raises(ArgumentTypeError, match="must be"):
            count(text)


def test_sizes():
    assert [size(text) for text in ("4G", "500M", "1.5GiB", "2097152")] == [4 << 30, 500 << 20, 3 << 29, 2 << 20]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["fit", "x.npy", "--bandwith", "3"], "unknown option --bandwith; did you mean --bandwidth?"),
        (["fit", "x.npy", "--subset_size=3"], "unknown option --subset_size; did you mean --subset-size?"),
        (["show", "run.npz", "--cvs", "a.csv"], "unknown option --cvs; did you mean --csv?"),
        (["fit", "--", "x.npy", "-d", "2"], "-d comes after '--', where options end; put it before"),
        (["fit", "x.npy", "--xyz"], "unknown option --xyz (see 'ies-gpu fit --help')"),
        (["fti", "x.npy"], "'fti' is unknown; did you mean 'fit'?"),
        (["plot", "run.npz", "--kind", "volums"], "'volums' is unknown; did you mean 'volumes'?"),
        (["fit", "x.npy", "y.npy"], "unrecognized arguments: y.npy"),
    ],
)
def test_misspelt_options_get_a_suggestion(words, meant, capsys):
    assert cli.main(words) == 2
    assert meant in capsys.readouterr().err
