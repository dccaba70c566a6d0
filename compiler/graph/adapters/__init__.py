"""The names of TensorFlow and Keras that are not public, in one module for each library."""
