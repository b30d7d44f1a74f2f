"""What quotas of GPUs are, and what a pod asks of them. Pure: how much is in use is known by the ledger alone."""
