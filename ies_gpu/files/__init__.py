"""Files and URLs: points in, results out, whole or not at all."""
