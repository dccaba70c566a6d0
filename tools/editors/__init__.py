"""The files of `editors/` that have the words of the language in them, made from the schema."""
