"""What a run starts from: points, a graph, a kernel, or a Laplacian with its eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backend import Backend, backend_of
from ..embedding.metrics import SPHERICAL, points_in_metric
from ..findings import option, refusal
from ..validation import check_array, check_integer
from .options import ENTRIES, Options


class Inputs(NamedTuple):
    """The inputs by name, exactly one of which is the entry; and the user's points, where a metric changed them."""

    values: dict[str, Any]
    before: Any = None

    @classmethod
    def of(cls, **values: Any) -> Inputs:
        """Check that exactly one entry was given, and eigenvectors only with a Laplacian."""
        entries = [name for name in ENTRIES if values.get(name) is not None]
        if len(entries) != 1:
            text = f"pass exactly one of X, graph, kernel, laplacian, got {', '.join(entries) or 'none'}"
            raise refusal("entry.number", text)
        late = [name for name in ("coordinates", "eigenvalues") if values.get(name) is not None]
        if entries[0] != "laplacian" and late:
            text = f"coordinates and eigenvalues work only with laplacian, not with {entries[0]}"
            raise refusal("coordinates.entry", text)
        if entries[0] == "laplacian" and len(late) < 2:
            text = "laplacian needs coordinates and eigenvalues too, as diffusion_map returns them"
            raise refusal("laplacian.alone", text)
        return cls({name: value for name, value in values.items() if value is not None})

    def in_metric(self, metric: str) -> Inputs:
        """The same with points whose Euclidean distances are those of the metric, where there are such points."""
        if metric not in SPHERICAL:
            return self
        return Inputs(self.values | {"X": points_in_metric(self.value, metric)}, before=self.value)

    @property
    def entry(self) -> str:
        """The name of what the run starts from."""
        return next(name for name in ENTRIES if name in self.values)

    @property
    def value(self) -> Any:
        """What the run starts from."""
        return self.values[self.entry]

    @property
    def home(self) -> Backend:
        """Where the input lives, and the results go."""
        return backend_of(self.values.get("coordinates", self.value))

    def n_components(self, otherwise: int) -> int:
        """The number of eigenvectors that were given, or else the number requested."""
        if "coordinates" not in self.values:
            return otherwise
        coordinates = self.values["coordinates"]
        shape = getattr(coordinates, "shape", None) or check_array("coordinates", coordinates).shape
        if len(shape) != 2:
            return otherwise
        if check_integer("n_components", otherwise, low=1) not in (shape[1], Options.n_components):
            text = f"{option('n_components', otherwise)} differs from the {shape[1]} columns of coordinates"
            raise refusal("n_components.coordinates", text, "leave it out, or pass as many columns and eigenvalues")
        return int(shape[1])
