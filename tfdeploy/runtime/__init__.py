"""Running a compiled graph: sessions, checkpoints, evaluation, and the files of a run."""
