"""Writes docs/rules.md from the rules themselves, so that the page and the rules always agree."""
