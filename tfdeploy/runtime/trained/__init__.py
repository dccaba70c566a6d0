"""A trained model taken from a run to be evaluated or used."""
