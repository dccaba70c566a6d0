"""What a run writes is sent to a tracker, by a process that the run does not wait for."""
