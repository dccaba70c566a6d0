"""The texts that an editor has open, and places in them."""
