"""How sure a choice is: bootstrap, refits, near twins among the eigenvalues."""
