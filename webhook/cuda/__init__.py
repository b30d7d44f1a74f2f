"""Which CUDA an image needs, what a node offers, and whether the one runs on the other. Pure values and tables."""

from pathlib import Path

DATA = Path(__file__).with_name("data")

UNVERIFIED = "unverified"
"""Source of a row that nobody has read anywhere."""
