"""The search of the site: the page that answers a question comes first.

Sphinx counts words in titles and texts, and knows no synonyms. Here each page names the words that it is the answer to:
they are indexed with it, and a query that has one of them lifts the page. Lists of names and changes come last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes

# the words of a page, the strongest first; those with a star also lift it where another page has them in its title
ANSWERS = {
    "lessons/tutorial": "install* start* begin getting started* tutorial quickstart introduction first",
    "lessons/reading": "output print result score verdict zeta loss regret volume residuals",
    "lessons/when_not_to_use_it": "clusters tree branches noise limitations fail",
    "install": "pip conda extras requirements docker",
    "parameters": "bandwidth* epsilon sigma kernel dimension* eigenvectors* how many n_components parameters sign",
    "judging": "trust reliable stability* confidence bootstrap diagnose* fold knot check quality verdict*",
    "data": "csv hdf5 nan sparse dataframe pandas load read file formats input molecules",
    "plots": "plot* picture figure color* colors* colour matplotlib legend",
    "report": "report* html* interactive browser notebook explore compare",
    "new-points": "new points* out-of-sample out of sample nystrom nyström transform* inverse extension",
    "pipelines": "sklearn scikit-learn* pipeline* anndata* scanpy* umap* initialization",
    "command-line": "command* cli shell terminal",
    "jobs": "cluster* dask* slurm memory* checkpoint* resume s3 cloud configuration",
    "messages": "warning* error* code message",
    "spectral-embedding-hangs": "converge* convergence* eigsh* arpack lobpcg hangs* spectral eigensolver",
    "which-diffusion-components": "components* component palantir* eigengap* diffmap",
    "gradients-swap-their-order": "gradient* gradients* order* swap* procrustes align brainspace",
    "faq": "disconnected* faq question help",
    "comparison": "package* alternatives comparison vs phate torchdr cuml",
    "coming-from": "coming migrate* megaman* pydiffmap* datafold* uqpy* gamma* convention* spectralembedding",
    "speed": "speed* fast slow* benchmark gpu* cuda* cupy time",
    "cite": "cite* citation bibtex reference paper contribute* contributing",
    "gallery/index": "examples* gallery",
    "theory/criterion": "criterion regularization penalty proof",
}
LAST = ("api/", "gallery/", "reference", "messages")
SCORER = """
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, title, anchor, descr, score]) => {
    const query = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/[^\\w-]+/).filter(Boolean);
    const lifted = (ANSWERS[page] || []).filter(([word]) => query.includes(word));
    const lift = Math.max(0, ...lifted.map(([word, points]) => points));
    return score + (anchor ? 0 : lift) - (lift === 0 && LAST.some(start => page.startsWith(start)) ? 4 : 0);
  },
};
"""


def points(words: str) -> list[tuple[str, int]]:
    return [(word.rstrip("*"), 40 if word.endswith("*") else 12) for word in words.split()]


def write_scorer(folder: Path) -> str:
    """Write the scorer of the search into a folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {page: points(words) for page, words in ANSWERS.items()}
    text = f"const ANSWERS = {json.dumps(table)};\nconst LAST = {json.dumps(LAST)};\n{SCORER}"
    (folder / "scorer.js").write_text(text)
    return str(folder / "scorer.js")


def add_words(app: Any, document: nodes.document) -> None:
    """Name the words of a page for our search, and its first paragraph for search engines, which quote it."""
    if words := ANSWERS.get(app.env.docname):
        document.insert(0, nodes.meta("", name="keywords", content=words.replace("*", "").replace(" ", ", ")))
    paragraphs = (node for node in document.findall(nodes.paragraph) if not isinstance(node.parent, nodes.Admonition))
    if first := next(paragraphs, None):  # not the note above an example
        document.insert(0, nodes.meta("", name="description", content=first.astext().replace("\n", " ")))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", add_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
