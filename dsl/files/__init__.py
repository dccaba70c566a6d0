"""Reading files safely: regular files alone, and JSON as typed records."""
