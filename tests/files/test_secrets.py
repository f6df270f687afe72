"""URLs, temporary files and pictures: what strangers may not get at, and what may not get at others."""

import os
import re
import stat
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.book import Book
from ies_gpu import datasets, load, plot, select_coordinates
from ies_gpu.files.points import read_points
from ies_gpu.files.remote import check_remote, check_remote_output, name_of, shown, shown_text
from ies_gpu.files.writing import check_output, whole_or_nothing
from tests.said import refused

HARM = "<script>alert(1)</script>\"'&"


def test_only_a_few_kinds_of_url_are_opened():
    for url, check in product(
        ("file://host/etc/points.npy", "ftp://host/points.npy", "https://host/x.npy::file:///etc/points.npy",
         "https://simplecache::s3://bucket/points.npy", "github://me:project@/points.npy", "https:///points.npy"),
        (check_remote, check_remote_output, read_points),
    ):  # fmt: skip
        with refused("url.*"):
            check(url)


@pytest.mark.parametrize(
    "url",
    ["https://me:secret@host/a/x.npy?token=secret", "https://me:se?cret@host/x.npy#secret",
     "s3://key:secret@bucket/x.npy", "s3://bucket/x.npy#token=secret", "git+https://me:secret@host/x.npy?token=secret",
     "simplecache::https://me:secret@host/x.npy", "simplecache::s3://key:secret@bucket/x.npy#token=secret",
     "filecache::zip::https://me:secret@127.0.0.1:9/x.npy"],
)  # fmt: skip
def test_a_url_is_shown_without_its_secrets(url):
    """In any message: also that of a library which repeats a part of the URL only."""
    assert shown(url).endswith("x.npy")
    library = f"invalid bucket {url.partition('://')[2]!r}, or {url!r}"
    told = [shown(url), shown_text(library, url)]
    with pytest.raises((ValueError, OSError, ImportError)) as caught:
        read_points(url)
    assert not [text for text in (*told, str(caught.value)) if "cret" in text]

    # one that pathlib has changed is refused without its secrets
    for use in (read_points, load, lambda path: check_output(path, ".npz")):
        with refused("url.path") as caught:
            use(Path("https://me:secret@host/run.npz"))
        assert "secret" not in str(caught.value)


def test_a_download_stays_in_its_folder(tmp_path):
    for path in ("../..", ".bashrc", "a/..\\..\\b.npy", "a" * 300 + ".npy", ""):
        local = (tmp_path / name_of(f"https://h/{path}")).resolve()
        assert local.parent == tmp_path.resolve() and re.fullmatch(r"[\w-][\w.-]{0,99}", local.name)


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_modes_of_files(tmp_path):
    (link := tmp_path / "link").symlink_to(path := tmp_path / "run.npz")
    for umask, old, wanted in ((0o77, None, 0o600), (0o22, None, 0o644), (0o22, 0o600, 0o600), (0o77, 0o664, 0o664)):
        path.unlink(missing_ok=True)
        if old is not None:
            path.touch()
            path.chmod(old)
        before = os.umask(umask)
        try:
            with whole_or_nothing(path) as file:
                assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == wanted  # from the first byte on
                # a link that somebody has placed at its name is not followed
                with pytest.raises(FileExistsError), open(link, file.mode):
                    pass
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == wanted


def test_pictures_and_pages_escape_what_they_are_told(tmp_path):
    strip = datasets.load("D1", n_samples=300)
    found = select_coordinates(strip.X, bandwidth=1.0, intrinsic_dim=2, subset_size=2, n_components=10)
    figure = plot.embedding(found, colors=np.where(strip.X[:, 0] > 1, HARM, "other"))
    figure.savefig(tmp_path / "map.svg")
    assert "<script" not in (tmp_path / "map.svg").read_text()
    book = Book(tmp_path / "book", introduction=HARM)
    book.table("table", HARM, [HARM], [(HARM,)], note=HARM)
    book.text("text", HARM, HARM)
    text = book.write().read_text()
    assert "<script" not in text and text.count("&lt;script") >= 6
