"""From a plan to a TensorFlow graph: the only part of the compiler that imports TensorFlow and Keras."""
