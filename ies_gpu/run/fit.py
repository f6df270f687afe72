"""What a run starts from, and the steps at given parameters, which every trial of the automatic search takes, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, Do, active_backend, backend_of, call, step, to_device, to_host
from ..backend.array import Array
from ..choice.rmetric import Tangents, tangent_spaces
from ..choice.search import SearchResult, choose_coordinates
from ..choice.untangle import untangle
from ..embedding.diffusion import Embedding, diffusion_map
from ..embedding.graph import SPHERICAL, csr, points_in_metric
from ..embedding.laplacian import Laplacian
from ..embedding.order import Rows
from ..embedding.transition import SparseMatrix
from ..findings import option, refusal
from ..options import ENTRIES, Options, is_auto
from ..validation import check_array, check_integer, check_points


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

    def to_euclidean(self, metric: str) -> Inputs:
        """Return inputs whose points have the distances of the metric as Euclidean ones, where such points exist."""
        if metric not in SPHERICAL:
            return self
        return Inputs(self.values | {"X": points_in_metric(self.value, metric)}, before=self.value)

    @property
    def entry(self) -> str:
        return next(name for name in ENTRIES if name in self.values)

    @property
    def value(self) -> Any:
        return self.values[self.entry]

    @property
    def home(self) -> Backend:
        """Where the input lives, and the results go."""
        return backend_of(self.values.get("coordinates", self.value))

    def n_components(self, otherwise: int) -> int:
        """Return the number of eigenvectors that were given, or else the number requested."""
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


@step("checks")
def checked_points(X: Any, options: Options, backend: Backend) -> Array:
    X = to_device(check_points(X), backend)
    options.check_shape(*X.shape)
    return X


def packed_laplacian(found: Laplacian) -> dict[str, Any]:
    """Return what a checkpoint saves of a Laplacian, but for its matrix."""
    own = {"weights": found.operator_weights, "bandwidth": found.bandwidth, "facts": found.facts}
    return own | found.rows._asdict()


def packed_matrix(found: Laplacian) -> dict[str, Any] | None:
    """Return the matrix; tiles are computed again: they would fill the disk, and take less time than the rest."""
    if not found.operator.has_matrix:
        return None
    P = found.operator.matrix
    return {"data": P.data, "indices": P.indices, "indptr": P.indptr}


def unpacked_laplacian(content: dict[str, Any], load: Any, *_: Any) -> Laplacian:
    """Return a Laplacian whose matrix is read, or computed again, when it is first used."""
    backend = active_backend()

    def stored() -> Any:
        found = load()
        if isinstance(found, Laplacian):
            return found.operator
        return SparseMatrix(csr(backend, *(backend.asarray(found[name]) for name in ("data", "indices", "indptr"))))

    rows = Rows(*(content[name] for name in Rows._fields))
    weights = backend.asarray(content["weights"])
    return Laplacian(stored, weights, content["bandwidth"], rows=rows, facts=content["facts"])


@step(
    "graph", composite=True, pack=packed_laplacian, unpack=unpacked_laplacian, heavy=packed_matrix,
    heavy_name="laplacian",
)  # fmt: skip
def laplacian_of(given: Inputs, options: Options, do: Do = call) -> Laplacian:
    """Return the Laplacian of whichever input was given: points, a graph or a kernel."""
    backend, limit = active_backend(), options.memory_limit
    if given.entry == "X":
        from ..embedding.cost import Room
        from ..embedding.points import laplacian_of_points

        found = laplacian_of_points(
            do(checked_points, given.value, options, backend), bandwidth=options.bandwidth, radius=options.radius,
            n_neighbors=options.n_neighbors, self_loops=options.self_loops, alpha=options.alpha,
            intrinsic_dim=options.intrinsic_dim, dtype=options.storage, disconnected=options.disconnected,
            room=Room(options.n_components, options.intrinsic_dim, is_limited=limit is not None), do=do,
        )  # fmt: skip
    else:
        from ..embedding.given import check_room, kernel_of_graph, kernel_of_user, laplacian_of_kernel

        if limit is not None and backend.device == "cpu" and backend.sparse.issparse(given.value):
            check_room(given.value, options, limit)
        if given.entry == "graph":
            kernel, one_way = do(kernel_of_graph, given.value, options, backend)
        else:
            kernel, one_way = do(kernel_of_user, given.value, options, backend), False
        found = laplacian_of_kernel(kernel, options, one_way, do)
    options.check_sizes(found.shape[0])
    return found


class Fit(NamedTuple):
    """A map with its tangent spaces. The Laplacian is without its matrix: several would not fit beside each other."""

    laplacian: Laplacian
    embedding: Embedding
    tangents: Tangents


def map_laplacian(laplacian: Laplacian, options: Options, do: Do) -> Embedding:
    """Return the diffusion map that the options ask for, with its few numbers on the host."""
    m, seed = options.n_components, options.random_state
    found = do(diffusion_map, laplacian, n_components=m, tol=options.tol, random_state=seed)
    few = ("eigenvalues", "residuals", "gaps", "angles")
    return replace(found, **{name: to_host(getattr(found, name)) for name in few})


def fit(laplacian: Laplacian, options: Options, do: Do, embedding: Embedding | None = None) -> Fit:
    """Return the map of a Laplacian, unless it is given, and its tangent spaces."""
    embedding = embedding or map_laplacian(laplacian, options, do)
    d, dtype = options.intrinsic_dim, options.arithmetic
    tangents = do(tangent_spaces, laplacian, embedding, intrinsic_dim=d, dtype=dtype)
    return Fit(laplacian.without_matrix, embedding, tangents)


def fit_input(given: Inputs, options: Options, do: Do) -> tuple[Fit, Laplacian | None]:
    """Return the map of whichever input was given; without points also the Laplacian with its matrix."""
    embedding = None
    if options.entry == "laplacian":
        from ..embedding.given import given_map

        laplacian, embedding = do(given_map, **given.values, bandwidth=options.bandwidth, backend=active_backend())
    else:
        laplacian = do(laplacian_of, given, options)
    return fit(laplacian, options, do, embedding), None if options.entry == "X" else laplacian


def choose(tangents: Tangents, embedding: Embedding, options: Options, do: Do) -> SearchResult:
    """Return the choice that the options ask for."""
    zeta = None if is_auto(options.zeta) else options.zeta  # by the regret, or as given
    return do(
        choose_coordinates, tangents, embedding, subset_size=options.subset_size, zeta=zeta,
        percentile=options.percentile, search=options.search, random_state=options.random_state,
    )  # fmt: skip


def find_turn(
    fit: Fit, found: SearchResult, X: Array | None, graph: Laplacian | None, n: int, do: Do
) -> np.ndarray | None:
    """Return the weights of eigenvectors in the chosen coordinates, tested by the points or by the graph, or None.

    The fit has all n points, or some, in the order of the device; X has the order of the input.
    """
    values, rows = fit.laplacian.scale * fit.embedding.eigenvalues, fit.laplacian.rows.order
    known = fit.embedding.vectors, values, *fit.tangents, found.subset
    return do(untangle, *known, X=X, laplacian=graph, rows=rows, n_samples=n)
