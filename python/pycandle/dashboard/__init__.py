"""`pycandle dashboard`: a verification in the terminal, live. Needs textual, and neither torch nor NumPy."""
