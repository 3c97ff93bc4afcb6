"""What each query of a detector found, and where it looked."""
