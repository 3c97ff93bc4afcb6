"""Views that the reader plays with: a folder each, its Python, script and style sheet together."""
