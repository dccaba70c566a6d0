"""The output formats of diagnostics, one in each file."""
