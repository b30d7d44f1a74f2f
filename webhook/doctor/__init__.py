"""Checks a live installation from outside, and says what is wrong with it and how to fix it."""
