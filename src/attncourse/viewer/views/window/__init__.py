"""Local attention: a window over a source."""
