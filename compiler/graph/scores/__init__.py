"""What a step and an evaluation report: loss, metrics and summaries."""
