"""Admission for GPU pods: completes the ones that can run, refuses and explains the ones that cannot."""
