"""From the IR of a spec to a plan, and from the plan to a TensorFlow multi-tower graph.

Everything outside `compiler.graph` works without TensorFlow.
"""
