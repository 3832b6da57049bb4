"""Eight coordinates a code: points of the E8 lattice."""
