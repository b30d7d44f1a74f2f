"""Files that people write in YAML, read strictly. All mistakes are reported at once, with file, line and key."""
