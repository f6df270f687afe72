"""From a diffusion map to the chosen coordinates: the paper's Algorithms 1 to 3."""
