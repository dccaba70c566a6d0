"""The search of `tfdeploy suggest`: `suggester.py` goes through placements, `reading.py` reads the graph."""
