"""Two coordinates a code, from a trained table of points in the plane."""
