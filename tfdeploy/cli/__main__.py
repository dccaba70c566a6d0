"""`python -m tfdeploy.cli`, by which the child of a launcher runs a command."""

from tfdeploy.cli import main

main()
