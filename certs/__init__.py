"""Certificates for admission webhooks: a private authority and the certificates that it issues.

The package is independent of the webhook.
"""
