"""The command line: one module for each command of `gpu-policy`, and what they share."""
