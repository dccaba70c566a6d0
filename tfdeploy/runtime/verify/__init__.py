"""`tfdeploy verify`: checks that every layout of a spec computes the same.

A spec is trained for a few steps under every combination of update mode, aggregation, placement of variables,
packing and number of clones that is allowed, on logical CPU devices of this process, and the results are
compared with one tower on the whole batch. Asynchronous and local training have references of their own:
single towers that update in turn, and single towers that are averaged in NumPy.
"""

from tfdeploy.runtime.verify import report
from tfdeploy.runtime.verify.session import Options, Outcome, Verification

__all__ = ["Options", "Outcome", "Verification", "report"]
