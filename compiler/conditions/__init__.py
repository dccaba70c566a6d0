"""Conditions of a spec on its compiled graph: what it expects of the placement, and its limits of memory."""
