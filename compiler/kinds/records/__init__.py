"""The placement map by kinds: its records, what each kind stands for, and the file that it is read from."""
