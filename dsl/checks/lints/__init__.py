"""Checks that warn of what is allowed and was hardly meant, one in each file."""
