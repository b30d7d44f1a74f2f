"""What a replica does beside answering: certificates, registration, look-ups, status of quotas and audits.

The one room besides the command line that knows both the webhook and `certs`, which know nothing of each other.
"""
