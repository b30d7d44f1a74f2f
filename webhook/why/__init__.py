"""Why a pod or workload does not run: from what was read of a cluster to one reason, its evidence and a remedy."""
