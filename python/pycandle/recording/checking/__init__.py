"""Is the recorded program the model? Opens as many axes as hold, and refuses what cannot be recorded."""
