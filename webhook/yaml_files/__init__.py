"""Files that people write in YAML, read strictly: every mistake is told with file, line and key, all at once."""
