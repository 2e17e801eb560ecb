"""Filters that the app's own templates load."""
