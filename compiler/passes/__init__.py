"""Passes: plain functions that work out a part of the plan."""
