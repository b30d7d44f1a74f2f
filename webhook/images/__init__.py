"""What registries say about images: who may be asked, the asking, and what is remembered of the answers."""
