"""`python -m tfdeploy`."""

import os
import sys

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 pathlib is not loaded yet

# `python -m` looks in the present folder first, which may well be that of a spec.
try:
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.getcwd() != HERE:  # noqa: PTH109 as above
        del sys.path[0]
except OSError:  # the present folder was removed
    pass

from tfdeploy.cli import main  # noqa: E402 from where it should come

main()
