"""Say why coordinates are redundant: one follows another, or is the product of two."""

import numpy as np

from .criterion import coordinate_names, names_text

FEW = 200  # points; below, the bins hold too few to tell a function from chance
BINS = 40  # of a coordinate by rank: a function of it hardly varies within one
FOLLOWS = 0.9  # share of the variance between the bins, from which on a coordinate is a function of the other
TIMES = 0.7  # squared correlation from which on it is a product: factors that a sample has mixed blur theirs
SUM = 0.1  # most that the eigenvalue of a product may differ from the sum of those of its factors, as a share


def find_relations(coordinates: np.ndarray, eigenvalues: np.ndarray) -> dict[int, tuple[int, ...]]:
    """Return for redundant coordinates, 0-based, the earlier one that each follows or the two that it multiplies.

    On a product of manifolds the eigenfunctions are products of those of the factors, and the eigenvalues their sums.
    Along one factor that is a curve, all are functions of the first.
    """
    n, m = coordinates.shape
    if n < FEW:
        return {}
    Y = coordinates - coordinates.mean(axis=0)
    Y = Y / np.maximum(np.sqrt((Y * Y).mean(axis=0)), 1e-300)
    bins = [np.array_split(rows, BINS) for rows in Y.argsort(axis=0).T]
    shares = np.array([sum(len(rows) * Y[rows].mean(axis=0) ** 2 for rows in own) for own in bins]) / n
    i, j = np.triu_indices(m, 1)
    products = Y[:, i] * Y[:, j]
    products -= products.mean(axis=0)
    alike = (Y.T @ products / n) ** 2 / np.maximum((products * products).mean(axis=0), 1e-300)
    off = np.abs(eigenvalues[i] + eigenvalues[j] - eigenvalues[:, None])
    alike = np.where((j < np.arange(m)[:, None]) & (off <= SUM * eigenvalues[:, None]), alike, 0.0)
    found: dict[int, tuple[int, ...]] = {}
    for k in range(1, m):
        best = int(alike[k].argmax())
        if (shares[:k, k] >= FOLLOWS).any():
            found[k] = (int((shares[:k, k] >= FOLLOWS).argmax()),)
        elif alike[k, best] >= TIMES:
            found[k] = int(i[best]), int(j[best])
    return found


def relations_text(found: dict[int, tuple[int, ...]]) -> str:
    """Return the relations as a sentence: ``phi2, phi3 follow phi1; phi8 is about phi1 times phi7``."""
    followed = {own[0]: [k for k, other in found.items() if other == own] for own in found.values() if len(own) == 1}
    said = [f"{names_text(ks)} follow{'s' * (len(ks) == 1)} {names_text([i])}" for i, ks in followed.items()]
    products = {k: own for k, own in found.items() if len(own) == 2}
    said += [f"phi{k + 1} is about {' times '.join(coordinate_names(own))}" for k, own in products.items()]
    return "; ".join(said)
