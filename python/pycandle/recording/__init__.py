"""Records PyTorch models. Needs torch.

The rooms, in the order that a model passes through them; each imports only those above it:

    sizes      which axes stay open, and symbolic sizes as text
    tracing    torch.export, and what stands in for calls that it cannot trace
    graph      the exported graph as the recorded program: nodes, names, taps
    checking   is the program the model? Open as many axes as hold, refuse what cannot be recorded
    files      manifest, goldens and weights on disk

Beside them: `recorder` (GoldenRecorder), `cli` (`pycandle record`), `exported_elsewhere` (programs that somebody else exported),
and what every room uses: `inputs`, `eager`, `places`.
"""
