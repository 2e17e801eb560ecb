"""A host app with kinds of its own, as a stranger's project would have one."""
