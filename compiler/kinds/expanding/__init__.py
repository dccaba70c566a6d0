"""Reading a map by kinds: the records of each clone, counts of ops, and what two maps do not share."""
