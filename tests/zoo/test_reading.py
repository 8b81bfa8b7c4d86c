"""The numbers that tell how emitted code reads: each counts what a reader would stumble over."""

from __future__ import annotations

import inspect

from torch import nn

from zoo.reading import read, summed


class Gate(nn.Module):
    """Two lines in each method, beside their heads."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 7)

    def forward(self, hidden):
        gated = self.up(hidden) * 0.25  # a comment
        return double(gated)


def double(x):
    return x * 2


HEADER = """
// Gate, zoo/test_reading.py:LINE
struct Gate : nn::Module<Gate> {
  nn::Linear up;

  explicit Gate(const Weights& w)
      : Module(w),
        up(NUMBER, 7, w / "up") {}

  Tensor forward(const Tensor& hidden) const {
    const Tensor NAME = up(hidden) * 0.25;
    return NAME * 2;
  }
};
"""


def reading(number: str, name: str, more: str = "", called: tuple[type, ...] = (Gate,)):
    header = HEADER.replace("NUMBER", number).replace("NAME", name) + more
    calls = [
        {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "class_line": inspect.getsourcelines(kind)[1],
            "path": "",
            "config": {"width": 48},
        }
        for kind in called
    ]
    return read(header.replace("LINE", str(calls[0]["class_line"])), {"module_calls": calls})


def test_code_in_the_words_and_numbers_of_python_counts_nothing() -> None:
    found = reading("48", "gated")
    assert (found.classes, found.numbers, found.names) == (1.0, 0.0, 0.0)
    assert found.lines == 10 / 8  # Gate's methods and the function that forward names
    assert found.longest == len("  Tensor forward(const Tensor& hidden) const {")


def test_numbers_that_neither_python_nor_its_configuration_has_are_counted() -> None:
    found = reading("6", "gated")
    assert found.foreign_numbers == ["Gate: 6"] and found.numbers == 10.0


def test_names_that_python_does_not_have_are_counted() -> None:
    found = reading("48", "mul_out")
    assert found.foreign_names == ["Gate: mul_out"] and found.names == 10.0


def test_a_second_class_for_one_of_python_and_one_that_is_missing_are_counted() -> None:
    second = HEADER.replace("struct Gate : nn::Module<Gate>", "struct GateTwo : nn::Module<GateTwo>")
    assert reading("48", "gated", second.replace("NUMBER", "48").replace("NAME", "gated")).classes == 2.0
    found = reading("48", "gated", called=(Gate, Other))
    assert found.classes == 0.5 and found.missing == [f"{__name__}.Other"]


class Other(nn.Module):
    pass


def test_a_sum_is_the_median_and_what_nearly_all_are_below() -> None:
    rows = [{"n": float(i)} for i in range(100)] + [{}]
    assert summed(rows, "n") == "49.5 / 95"
    assert summed([{}], "n") == ""
