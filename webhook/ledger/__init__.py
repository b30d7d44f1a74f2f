"""The ledgers of quotas: an entry for every admitted pod, in the API server, where all replicas share them."""
