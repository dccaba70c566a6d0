"""Views of a placement map for people; nothing here imports TensorFlow."""
