"""Lints: checks that warn of something that is allowed but probably a mistake, one in each file."""
