"""The way in: a spec written from a Keras model, and proved equal to it before it is kept."""
