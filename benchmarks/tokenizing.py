"""How fast a tokenizer.json is opened and used, beside the `tokenizers` package: both encode the same strings one by one in
one thread. Times are of the processor, so that neighbours count less: the quickest of three. Ours is at least as fast, and
its compiled tables open in less than 50 ms.

    PYTHONPATH=tests/python .venv/bin/python benchmarks/tokenizing.py tokenizer.json …
"""

import sys
import time
from pathlib import Path

import tokenizers
from tokenizer_agreement import Pair
from tokenizer_strings import strings

import pycandle


def least_seconds(run):
    spent = []
    for _ in range(3):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return min(spent)


def measured(file):
    """Seconds of ours and of theirs."""
    pair = Pair(file)
    texts = [text.decode("utf-8", errors="replace") for text in strings(2000, seed=9)]
    tables = pycandle.Tokenizer.compile(file.read_text())
    return {
        "encode 2,000 strings": [
            least_seconds(lambda e=each: [e.encode(text) for text in texts])
            for each in (pair.ours, pair.theirs)
        ],
        "open": [
            least_seconds(lambda: pycandle.Tokenizer.from_file(file)),
            least_seconds(lambda: tokenizers.Tokenizer.from_file(str(file))),
        ],
        "open tables": [least_seconds(lambda: pycandle.Tokenizer.from_compiled(tables))],
    }


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(f"{'':24}{'ours':>12}{'theirs':>12}{'ratio':>8}")
    missed = False
    for file in map(Path, sys.argv[1:]):
        print(file)
        for what, (ours, *theirs) in measured(file).items():
            beside = f"{theirs[0] * 1e3:9.1f} ms{ours / theirs[0]:8.2f}" if theirs else ""
            print(f"  {what:22}{ours * 1e3:9.1f} ms{beside}")
            missed |= ours > (theirs[0] if theirs else 0.05)
    sys.exit(missed)


if __name__ == "__main__":
    main()
