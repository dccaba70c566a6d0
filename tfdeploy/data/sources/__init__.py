"""Sources of examples, one file or folder each."""
