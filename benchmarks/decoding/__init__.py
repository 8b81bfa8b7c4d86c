"""How fast language models generate, beside torch, llama.cpp and candle: python -m decoding."""
