"""Examples in order: passes, shares and batches."""
