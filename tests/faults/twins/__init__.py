"""Twins: a model and the same model with one mistake. The goldens are the right one's, the program the wrong one's."""
