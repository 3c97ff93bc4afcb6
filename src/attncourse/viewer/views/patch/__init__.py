"""What each patch of an image attends to."""
