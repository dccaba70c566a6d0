"""How large a graph will be, from what is known before it is built, and whether TensorFlow can hold it."""
