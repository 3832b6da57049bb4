"""No rotation: for baselines, and for codebooks that need none."""
