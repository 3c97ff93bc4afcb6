"""Where in an image each word looked."""
