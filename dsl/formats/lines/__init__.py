"""The lines of a source with markers below them, as the human format shows them."""
