"""Files and URLs: points in, results out, written completely or not at all."""
