"""A step as records, without TensorFlow: its ops, what each is, takes and makes, and where it is and why.

Whatever writes a part of a step writes it once, by the writer of this folder. What needs to know something
of a step reads the records: the graph is one of these readers, and those in `read/` are the others.
"""
