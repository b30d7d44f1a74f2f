"""What rules may ask about the cluster: an immutable snapshot, read from a file or kept current from the API server."""
