"""The documents that are written from the rules themselves, so that they cannot say anything else."""
