"""Tags every word of a sentence: embeddings, a bidirectional LSTM, and scores for each tag."""

from __future__ import annotations

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary: int = 20_000, width: int = 128, hidden: int = 256, tags: int = 17) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.scores = nn.Linear(2 * hidden, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(words))
        return torch.log_softmax(self.scores(self.norm(states)), dim=-1)
