"""Score, normalise, weigh: one query over keys in the plane."""
