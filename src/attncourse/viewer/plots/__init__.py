"""Figures of numbers: curves, maps, images with what was found in them."""
