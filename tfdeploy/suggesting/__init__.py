"""`tfdeploy suggest`: `suggester.py` goes through placements, and `trials.py` tries each of them."""
