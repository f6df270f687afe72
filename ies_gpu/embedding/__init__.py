"""From points to a diffusion map: order, graph, kernel, Laplacian, eigenvectors, new points."""
