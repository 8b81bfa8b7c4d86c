"""Sizes of axes: which stay open, and symbolic sizes as text."""
