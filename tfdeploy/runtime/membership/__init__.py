"""Which tasks a cluster has, where they are, and which of them this process is."""
