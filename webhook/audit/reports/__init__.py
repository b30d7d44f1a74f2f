"""The formats of an audit's report, one file for each."""
