"""Results that the workers write, one block at a time."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates

from ..extras import needed
from ..said import warned

needed("distributed", "dask")


@pytest.mark.parametrize("name", ["map.npy", "map.zarr"])
def test_rows_are_written_by_block_completely_or_not_at_all(client, tmp_path, name):
    from ies_gpu.cluster.returned import write_rows

    da = needed("dask.array", "dask")
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    array = da.from_array(rows, chunks=(300, 2))
    write_rows(array, tmp_path / name)
    written = np.load(tmp_path / name) if name.endswith("npy") else needed("zarr", "dask").open(str(tmp_path / name))[:]
    assert (written == rows).all()

    def broken(block):
        raise OSError("no space left")

    with pytest.raises(OSError):  # noqa: PT011 - of the block
        write_rows(array.map_blocks(broken, dtype=float), tmp_path / f"other-{name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rows_that_were_left_out_are_nan_in_what_is_written(client, tmp_path):
    """Also where a whole chunk is left out."""
    from ies_gpu.cluster.returned import padded, write_rows

    da = needed("dask.array", "dask")
    rows, points = np.random.default_rng(0).normal(size=(7, 2)), np.array([0, 1, 4, 11, 12, 13, 18])
    whole = padded(da.from_array(rows, chunks=(3, 2)), points, 20).compute()
    np.testing.assert_array_equal(whole[points], rows)
    assert np.isnan(np.delete(whole, points, axis=0)).all() and len(whole) == 20
    X = np.vstack([[[99, 0, 0], [0, 99, 0]], datasets.load("D1", n_samples=900).X, [[0, 0, 99]]])
    np.save(tmp_path / "points.npy", X)
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6, "disconnected": "largest", "device": "cpu"}
    with warned("graph.left_out"):
        found = select_coordinates(tmp_path / "points.npy", client=client, **options)
    write_rows(padded(found.embedding, found.points, len(X)), tmp_path / "map.npy")
    written = np.load(tmp_path / "map.npy")
    assert np.isnan(written[[0, 1, -1]]).all() and np.isfinite(written[2:-1]).all()
