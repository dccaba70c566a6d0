"""What a spec expects of its placement, and whether the memory suffices."""
