"""`verify`: the arithmetic contract as a program.

A spec is trained for a few steps under every combination of update mode, aggregation, placement of variables,
packing and number of clones that goes together, on logical CPU devices of this process, and what comes out is
held against one tower on the whole batch. Asynchronous and local training have references of their own:
single towers that update in turn, and single towers that are averaged in NumPy.
"""

from tfdeploy.runtime.verify import report
from tfdeploy.runtime.verify.session import Options, Outcome, Verification

__all__ = ["Options", "Outcome", "Verification", "report"]
