"""The report as one page that people look at."""
