"""The documentation site: ``python -m sphinx docs docs/_build/html``.

Nothing is fetched while it is built, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

if importlib.util.find_spec("cupy"):  # pages are made on the CPU; without CuPy they are anyway, and need not say so
    os.environ["IES_GPU_DEVICE"] = "cpu"

import answers  # noqa: E402
import gallery_runs  # noqa: E402
import site_links  # noqa: E402

import ies_gpu  # noqa: E402

sys.modules["ies_gpu.anndata"] = ies_gpu.anndata  # autodoc imports modules by name, and this one is an attribute

project = "ies_gpu"
copyright = "The ies_gpu developers, BSD-3-Clause"
version = release = ies_gpu.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "answers",
    "mathml",
    "reference",
    "site_links",
]
exclude_patterns = ["_build", "_lessons", "lessons/index.rst"]  # the lessons are pages of the front page's lists
nitpicky = True
templates_path = ["_templates"]

# GitHub shows the same files: only Markdown that it understands too, and a few directives
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

# the gallery is examples/; it and the lessons are run in copies of their folders, because the scripts write files
RUN = {"gallery": DOCS.parent / "examples", "lessons": DOCS / "_lessons"}
executed = []
for name, folder in RUN.items():
    shutil.rmtree(DOCS / "_build" / name, ignore_errors=True)
    shutil.copytree(folder, DOCS / "_build" / name, ignore=shutil.ignore_patterns("__pycache__"))
    executed += [rf"/{name}/(\w+/)?{script[:-3]}\.py$" for script in gallery_runs.prepare(DOCS / "_build" / name)]
sphinx_gallery_conf = {
    "examples_dirs": [str(DOCS / "_build" / name) for name in RUN],
    "gallery_dirs": list(RUN),
    "default_thumb_file": str(DOCS / "_static" / "script.png"),
    "filename_pattern": "|".join(executed),
    "subsection_order": "gallery_runs.section_order",
    "within_subsection_order": "gallery_runs.Order",
    "nested_sections": False,
    "image_scrapers": ["gallery_runs.written_pictures"],
    "capture_repr": (),
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # that page loads a script from elsewhere
    "min_reported_time": 1,
    "thumbnail_size": (300, 300),
    "backreferences_dir": "api/examples",
    "doc_module": ("ies_gpu",),
}

html_theme = "pydata_sphinx_theme"
html_title = "ies_gpu"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_search_scorer = answers.write_scorer(DOCS / "_build")
maximum_signature_line_length = 60
toc_object_entries_show_parents = "hide"
html_logo = "_static/logo.png"
html_favicon = "_static/logo.png"
html_theme_options = {
    "logo": {"text": f"ies_gpu {release}", "alt_text": "ies_gpu"},
    "icon_links": [{"name": "Source", "url": "https://github.com/ies-gpu/ies-gpu", "icon": "fa-brands fa-github"}],
    "navbar_center": [],  # the pages are listed at the left
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"**": ["all-pages"]}


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of a public name."""
    found = importlib.import_module(info["module"]) if info["module"] in sys.modules else ies_gpu
    for part in info["fullname"].split("."):
        found = getattr(found, part, None)
    try:
        found = inspect.unwrap(found)
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):
        return None
    name = os.path.relpath(file or "", DOCS.parent)
    return f"{site_links.SOURCE}/{name}#L{line}" if name.startswith("ies_gpu") else None
