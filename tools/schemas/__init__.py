"""The JSON schemas of files and outputs that other programs read, and the page that lists them."""
