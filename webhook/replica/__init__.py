"""What a replica does for its own installation while it answers: it keeps certificates and watches its registration.

The one room besides the command line that knows both the webhook and `certs`, which know nothing of each other.
"""
