"""Starting all tasks of a cluster as processes of this machine."""
