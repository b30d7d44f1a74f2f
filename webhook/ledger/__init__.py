"""The books of quotas: an entry for every admitted pod, kept in the API server, so that quotas hold for any number of
replicas.
"""
