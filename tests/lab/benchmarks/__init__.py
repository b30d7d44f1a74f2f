"""Measurements, not tests: nothing here asserts a time. docs/performance.md has the figures and the commands."""
