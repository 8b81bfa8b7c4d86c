"""Strings to tokenize: many scripts, emoji, control characters, invalid UTF-8, long lines. The same on every run."""

from __future__ import annotations

import random

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "I",
    "this",
    "are",
    "or",
    "his",
    "from",
    "at",
    "which",
    "but",
    "have",
    "an",
    "had",
    "they",
    "you",
    "were",
    "their",
    "one",
    "all",
    "we",
    "can",
    "her",
    "has",
    "there",
    "been",
    "if",
    "more",
    "when",
    "will",
    "would",
    "who",
    "so",
    "no",
    "The",
    "House's",
    "don't",
    "I'm",
    "we'll",
    "they've",
    "you're",
    "it'd",
]
SCRIPTS = [
    *[
        (0x41, 0x7A),
        (0xC0, 0x17F),
        (0x370, 0x3FF),
        (0x400, 0x4FF),
        (0x531, 0x587),
        (0x5D0, 0x5EA),
        (0x620, 0x64A),
    ],
    *[(0x904, 0x939), (0x93E, 0x94D), (0x985, 0x9B9), (0xE01, 0xE30), (0x10D0, 0x10F0), (0x1100, 0x1112)],
    *[
        (0x1161, 0x1175),
        (0x11A8, 0x11C2),
        (0x3041, 0x3096),
        (0x30A1, 0x30FA),
        (0x4E00, 0x9FA5),
        (0xAC00, 0xD7A3),
    ],
    *[
        (0x1F300, 0x1F64F),
        (0x1F900, 0x1F9FF),
        (0x1D400, 0x1D433),
        (0x20000, 0x20100),
    ],  # emoji, bold, rare Han
    *[
        (0x300, 0x34F),
        (0xFE00, 0xFE0F),
        (0x1E00, 0x1EFF),
        (0xFB00, 0xFB06),
        (0xFF01, 0xFF5E),
        (0xF900, 0xFA2D),
    ],
    *[(0x2000, 0x206F), (0x2100, 0x214F), (0x2460, 0x24FF), (0x600, 0x605)],
    *[(0x0, 0x1F), (0x7F, 0xA0), (0xE000, 0xE010)],  # control and private use
]
SPECIAL = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<|endoftext|>",
    "<|im_start|>",
    "[CLS]",
    "[MASK]",
    "<bos>",
    "<extra_id_3>",
    "<|begin_of_text|>",
    "[INST]",
]
NUMBERS = ["3.14", "2024", "1,000,000", "0x1F", "１２", "½", "٣٤"]
CLUSTERS = [
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "❤️",
    "🤷‍♀️",
    "e\u0301",
    "ﬁ",
    "①",
    "か\u3099",
    "İstanbul",
    "ǅ",
    "ß",
    "A\u030a",
    "a\u0323\u0308",
]
CLUSTERS += ["\u1100\u1161\u11a8", "각", "\u0344", "\u0958", "\u212b"]
SPACES = [
    "  ",
    "\n",
    "\n\n",
    "\t",
    " \n ",
    "\r\n",
    "\u3000",
    "\u00a0",
    "   ",
    "\u2581",
    "\u200b",
    "\ufeff",
    "\0",
    "\u180e",
]
SIGNS = ["...", " - ", "!!", "?!", "#$%&", "''", '"', "__", "http://a.b/c?d=e&f", "foo_bar", "CamelCase"]


def piece(r: random.Random) -> str:
    kind = r.random()
    if kind < 0.35:
        return " ".join(r.choice(WORDS) for _ in range(r.randint(1, 8)))
    if kind < 0.62:
        first, last = r.choice(SCRIPTS)
        return "".join(chr(r.randint(first, last)) for _ in range(r.randint(1, 10)))
    if kind < 0.70:
        return r.choice(CLUSTERS)
    if kind < 0.76:
        return r.choice(NUMBERS)
    if kind < 0.82:
        return r.choice(SPACES)
    if kind < 0.86:
        return r.choice(SIGNS) if r.random() < 0.8 else "a" * r.randint(1, 300)
    if kind < 0.92:
        return r.choice(SPECIAL)
    return r.choice(WORDS).upper() + r.choice(",.;:!")


def strings(count: int, seed: int = 1) -> list[bytes]:
    """UTF-8, and every eleventh string with bytes that are not."""
    r = random.Random(seed)
    out = []
    for index in range(count):
        text = r.choice(["", " "]).join(piece(r) for _ in range(r.randint(1, 10)))
        if index % 997 == 5:
            text *= 200  # a long line
        data = bytearray(text.encode())
        if index % 11 == 3:
            for _ in range(r.randint(1, 4)):
                data[r.randrange(len(data))] = r.randint(0x80, 0xFF)
        out.append(bytes(data))
    return [b"", b" ", b"\n", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", *out]
