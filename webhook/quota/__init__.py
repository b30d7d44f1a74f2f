"""Quotas of GPUs as values, and what a pod counts against them. Pure: only ledgers know how much is in use."""
