"""Views of a placement map for people; nothing here imports TensorFlow."""

GENERATOR = "made by tfdeploy"
"""The text by which files are recognised as the tool's own."""
