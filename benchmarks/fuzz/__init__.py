"""Many broken specs for the reader and the formatter, to be run by hand."""
