"""Tests of policies: what is expected to become of objects, in files."""
