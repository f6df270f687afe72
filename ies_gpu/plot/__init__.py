"""Pictures of a result: the embedding, the regularization path with the regret, the volumes.

Each function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state. Save it with
``figure.savefig("name.png", dpi=150)``; a notebook shows the others by itself, without ``%matplotlib inline``.
"""

from __future__ import annotations

from .maps import embedding, points
from .panels import set_label
from .path_and_regret import MAX_BOXES, path
from .volume_histograms import volumes

__all__ = ["MAX_BOXES", "embedding", "path", "points", "set_label", "volumes"]
