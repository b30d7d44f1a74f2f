"""What a replica does besides answering reviews: certificates, registration, look-ups, status of quotas and audits.

Besides the command line, only this room imports both the webhook and `certs`, which do not import each other.
"""
