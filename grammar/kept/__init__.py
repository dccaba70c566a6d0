"""What is kept of a text between two readings of it, so that an editor waits for what has changed only."""
