"""What a run has measured, compared with its targets and shown on a page."""
