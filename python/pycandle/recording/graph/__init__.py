"""The exported graph as the recorded program: nodes, names, taps, and a way to run it in torch."""
