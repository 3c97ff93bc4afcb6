"""Every head of a Transformer at once."""
