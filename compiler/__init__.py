"""From the IR of a spec to a plan, and from the plan to a TensorFlow graph of several towers.

Everything outside `compiler.graph` works without TensorFlow.
"""
