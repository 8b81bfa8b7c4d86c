"""Runs recorded models. Needs NumPy alone."""
