"""Pictures of a result: the embedding, the path with the regret, the volumes, the diagnosis.

Each function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state. Save it with
``figure.savefig("name.png", dpi=150)``; a notebook shows the last one of a cell.
"""

from .evidence import diagnosis, path, volumes
from .maps import embedding, points

__all__ = ["diagnosis", "embedding", "path", "points", "volumes"]
