"""A notebook shows every figure once, in the order in which they were made, without ``%matplotlib inline``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from ies_gpu import plot
from tests.extras import needed

X = np.random.default_rng(0).normal(size=(50, 2))
ROOT = Path(__file__).parents[2]


class Notebook:
    """A cell at a time: what IPython does with a last expression, and at the end of a cell."""

    def __init__(self, patch):
        self.shown, self.hooks = [], []
        events = SimpleNamespace(
            callbacks={"post_run_cell": self.hooks}, register=lambda _, hook: self.hooks.append(hook)
        )
        shell = SimpleNamespace(kernel=object(), events=events)
        module, display = ModuleType("IPython"), ModuleType("IPython.display")
        module.get_ipython, module.version_info = lambda: shell, (9, 0)  # Matplotlib looks at the version
        display.display = lambda data, raw: self.shown.append(data["image/png"])
        patch.setitem(sys.modules, "IPython", module)
        patch.setitem(sys.modules, "IPython.display", display)

    def run(self, cell):
        self.shown.clear()
        last = cell()
        if last is not None:
            last._ipython_display_()
        for hook in self.hooks:
            hook(None)
        return list(self.shown)


def test_each_figure_is_shown_once_and_in_order(monkeypatch):
    notebook, made = Notebook(monkeypatch), []

    def figure(title):
        made.append(plot.points(X, title=title))
        return made[-1]

    assert len(notebook.run(lambda: figure("a"))) == 1
    assert notebook.run(lambda: (figure("b"), figure("c"))[1]) == [picture._repr_png_() for picture in made[1:]]
    assert len(notebook.run(lambda: (figure("d"), None)[1])) == 1  # assigned, not the last expression
    assert len(notebook.run(lambda: made[0])) == 1  # asked for again
    assert notebook.run(lambda: None) == [] and len(notebook.hooks) == 1


def test_a_figure_that_was_saved_is_not_shown(monkeypatch, tmp_path):
    assert Notebook(monkeypatch).run(lambda: plot.points(X).savefig(tmp_path / "points.png")) == []


def test_outside_a_notebook_nothing_waits():
    from ies_gpu.plot import notebook

    plot.points(X)
    assert notebook._waiting == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_real_notebook(monkeypatch):
    nbclient = needed("nbclient", "test-all")
    needed("ipykernel", "test-all")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        "import numpy as np\nfrom ies_gpu import plot\nX = np.random.default_rng(0).normal(size=(50, 2))",
        "plot.points(X)",
        "plot.points(X)\nplot.points(X, title='two')",
        "figure = plot.points(X)",
        "import matplotlib.pyplot as plt\n%matplotlib inline\nplot.points(X)",
        "fig, ax = plt.subplots()\nplot.points(X, ax=ax);",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    pictures = [[out for out in cell.outputs if "image/png" in out.get("data", {})] for cell in book.cells]
    assert [len(outs) for outs in pictures] == [0, 1, 2, 1, 1, 1]
    assert pictures[2][0].data["image/png"] != pictures[2][1].data["image/png"]
    assert all(out.data["image/png"].startswith("iVBOR") for outs in pictures for out in outs)  # PNG in base64
