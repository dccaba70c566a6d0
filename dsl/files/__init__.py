"""Files, read and written safely: regular files alone, JSON as typed records, whole or not at all."""
