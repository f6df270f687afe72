"""What the tests of pictures share."""

from __future__ import annotations

import io


def drawn(figure):
    """The figure is really drawn: bad labels and layouts fail here, or warn, which is an error too."""
    figure.savefig(io.BytesIO(), format="png")
    return figure
