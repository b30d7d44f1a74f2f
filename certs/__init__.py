"""Certificates for admission webhooks: a private authority and what it issues. Knows nothing of the webhook itself."""
