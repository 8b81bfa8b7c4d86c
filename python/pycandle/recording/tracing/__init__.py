"""torch.export as recording uses it, and what stands in for calls that it cannot trace."""
