"""Lloyd-Max levels for the coordinates of a uniformly random unit vector."""
