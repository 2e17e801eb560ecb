"""The outside world: archives, processes, builders and runtimes. No Django here."""
