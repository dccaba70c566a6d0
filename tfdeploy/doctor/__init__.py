"""What this machine has, and what of tfdeploy would fail on it; `tfdeploy doctor` prints it."""
