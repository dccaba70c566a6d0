"""What is read from a document: its diagnostics, its names, the shapes of its tensors, and the last run."""
