"""Looks at a live installation from outside, says what is wrong with it, and how to mend it."""
