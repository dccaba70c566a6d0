"""Specs whose model does not matter, for tests to add blocks to."""

CLASSES = """\
tfdeploy = 1

model "m" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2, name = "y")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
"""
LINE = """\
tfdeploy = 1

model "m" {
  x = input(float32, [3])
  y = input(float32, [1])
  z = x -> Dense(1, name = "z")
  loss = [y, z] -> MeanSquaredError()
}
"""
