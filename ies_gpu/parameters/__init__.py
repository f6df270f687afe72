"""Finding bandwidth, dimension and number of coordinates from the points."""
