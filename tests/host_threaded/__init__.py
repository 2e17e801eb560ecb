"""A host app that starts a thread when it is loaded, as some libraries do."""
