"""The API reference: parameters under subheads where there are many, in the order in which a reader needs them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from docutils import nodes

MANY = 12  # parameters that need subheads
GROUPS = {
    "What you have": "X graph kernel laplacian coordinates eigenvalues adata use use_rep",
    "What you want": "intrinsic_dim subset_size bandwidth",
    "The graph": "n_neighbors radius self_loops metric alpha disconnected isolated",
    "The choice": "n_components zeta percentile search untangle",
    "What comes back": "scale diffusion_time keep_bases key_added copy",
    "Accuracy and repetition": "tol random_state",
    "The machine": "device dtype memory_limit n_threads progress",
    "A job": "checkpoint resume client",
}
PLACE = {name: place for place, names in enumerate(GROUPS.values()) for name in names.split()}


def place(entry: nodes.Element) -> int:
    """Return the number of the group of a parameter; those that are in none come last."""
    return PLACE.get(entry[0].astext().partition(":")[0].strip(), len(GROUPS))


def group_parameters(app: Any, domain: str, kind: str, content: nodes.Element) -> None:
    for field in content.findall(nodes.field):
        entries = next(iter(field[1].findall(nodes.definition_list)), None) if len(field) > 1 else None
        if field[0].astext() != "Parameters" or entries is None or len(entries) < MANY:
            continue
        ordered, grouped = sorted(entries.children, key=place), []
        for number, some in groupby(ordered, key=place):
            title = [*GROUPS, "More"][number]
            grouped += [nodes.paragraph("", title, classes=["group"]), nodes.definition_list("", *some)]
        entries.replace_self(grouped)


def skip_numbered(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the fields of a named tuple, which its docstring describes and Python numbers."""
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("object-description-transform", group_parameters, priority=900)
    app.connect("autodoc-skip-member", skip_numbered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
