"""An interactive course on attention: the package its chapters stand on. Import the part you need."""

__version__ = "0.1.0"
