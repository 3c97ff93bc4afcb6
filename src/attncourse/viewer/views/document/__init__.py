"""Which sentences of a document count, and which of their words."""
