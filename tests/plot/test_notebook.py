"""A notebook shows the figure that is the last expression of a cell, with and without ``%matplotlib inline``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import needed

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_real_notebook(monkeypatch):
    nbclient = needed("nbclient", "test-all")
    needed("ipykernel", "test-all")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        "import numpy as np\nfrom ies_gpu import plot\nX = np.random.default_rng(0).normal(size=(50, 2))",
        "plot.points(X)",
        "figure = plot.points(X)",
        "import matplotlib.pyplot as plt\n%matplotlib inline\nplot.points(X)",
        "fig, ax = plt.subplots()\nplot.points(X, ax=ax);",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    pictures = [[out for out in cell.outputs if "image/png" in out.get("data", {})] for cell in book.cells]
    assert [len(outs) for outs in pictures] == [0, 1, 0, 1, 1]
    assert all(out.data["image/png"].startswith("iVBOR") for outs in pictures for out in outs)  # PNG in base64
