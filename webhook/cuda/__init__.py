"""Which CUDA an image needs, what a node offers, and whether the one runs on the other. Pure values and tables."""
