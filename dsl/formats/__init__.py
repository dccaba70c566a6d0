"""One output format of diagnostics per file."""
