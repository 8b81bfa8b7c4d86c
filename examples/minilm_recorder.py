"""pycandle record --script examples/minilm_recorder.py --name minilm --out pycandle_trace"""

from minilm import SENTENCES, SentenceEncoder, tokenize

from pycandle import GoldenRecorder

recorder = GoldenRecorder(output_dir="pycandle_trace")
recorder.record(SentenceEncoder().eval(), **tokenize(SENTENCES[:2]))
recorder.save("minilm")
