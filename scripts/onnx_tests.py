"""Runs the backend tests of the `onnx` package through its own runner, on us and on ONNX Runtime, and writes docs/onnx-tests.md.

.venv/bin/python scripts/onnx_tests.py             # both, and the page
.venv/bin/python scripts/onnx_tests.py -k resize   # some, and why they fail
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import multiprocessing
import re
import unittest
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "onnx-tests.md"
KINDS = {
    "NodeModel": "node",
    "SimpleModel": "simple",
    "PyTorchConvertedModel": "pytorch-converted",
    "PyTorchOperatorModel": "pytorch-operator",
}
# What the share is not counted of, and why. By name, or by what stands in the model.
TRAINING = re.compile(r"^test_(adagrad|adam|momentum|nesterov_momentum|gradient_of)")
RANDOM = re.compile(r"^test_(bernoulli|training_dropout)")


def tests_of(backend: str, pattern: str) -> dict[tuple[str, str], unittest.TestCase]:
    import onnx.backend.test

    if backend == "onnxruntime":
        import onnxruntime.backend

        chosen = onnxruntime.backend.backend.OnnxRuntimeBackend
    else:
        from pycandle.onnx_backend import PyCandleBackend as chosen
    found = {}
    for category, case in onnx.backend.test.BackendTest(chosen, __name__).test_cases.items():
        kind = KINDS.get(category.removeprefix("OnnxBackend").removesuffix("Test"))
        for name in dir(case) if kind else ():
            if name.startswith("test_") and name.endswith("_cpu") and re.search(pattern, name):
                found[kind, name.removesuffix("_cpu")] = case(name)
    return found


def outcome(case: unittest.TestCase) -> str:
    """ "" or the reason."""
    result = unittest.TestResult()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        case.run(result)
    if result.skipped:
        return "skipped: " + result.skipped[0][1]
    if bad := result.errors or result.failures:
        return bad[0][1].strip()
    return ""


def worker(backend: str, pattern: str, part: int, parts: int, pipe) -> None:
    if backend == "onnxruntime":
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
    else:
        import torch  # noqa: F401 bf16 arrays of NumPy come by way of it
    for number, (key, case) in enumerate(tests_of(backend, pattern).items()):
        if number % parts == part:
            pipe.send((key, None))
            pipe.send((key, outcome(case)))
    pipe.send(None)


def run(backend: str, pattern: str, jobs: int) -> dict[tuple[str, str], str]:
    """Each test in a process that may die; then the test is wrong, and the rest of that part is lost."""
    context = multiprocessing.get_context("spawn")
    found: dict[tuple[str, str], str] = {}
    running = []
    for part in range(jobs):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=worker, args=(backend, pattern, part, jobs, theirs))
        process.start()
        theirs.close()
        running.append((process, mine))
    for process, pipe in running:
        with contextlib.suppress(EOFError):
            while (message := pipe.recv()) is not None:
                key, reason = message
                found[key] = "the process died" if reason is None else reason
        process.join()
    return found


def reason_of(text: str) -> str:
    """The last line, without names and numbers of this test."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = next(
        (line for line in reversed(lines) if re.match(r"\w+(\.\w+)*(Error|Exception)?: ", line)), lines[-1]
    )
    if match := re.search(r"found:? +(.*is not supported.*)", text):
        last = match[1]
    return re.sub(r"\d+ times?: .*", "", last)[:110]


def apart(kind: str, name: str) -> str | None:
    import onnx
    import onnx.backend.test

    if TRAINING.match(name):
        return "training"
    if RANDOM.match(name):
        return "random numbers of another generator"
    folder = Path(onnx.backend.test.__file__).parent / "data" / kind / name
    model = onnx.load(folder / "model.onnx")
    values = [*model.graph.input, *model.graph.output]
    for value in values:
        which = value.type.WhichOneof("value")
        elements = [getattr(value.type, which)]
        while elements and hasattr(elements[-1], "elem_type") and not isinstance(elements[-1].elem_type, int):
            inner = elements[-1].elem_type
            elements.append(getattr(inner, inner.WhichOneof("value")))
        if elements[-1].elem_type == onnx.TensorProto.STRING:
            return "strings"
    return None


def table(ours: dict, theirs: dict) -> str:
    import onnx
    import onnxruntime

    groups = collections.defaultdict(list)
    for key in ours:
        groups[apart(*key) or key[0]].append(key)
    lines = [
        "# Node tests of ONNX",
        "",
        "After this page you know which of ONNX's own tests pass. Written by `scripts/onnx_tests.py`; do not edit. Every test of the `onnx` package that needs no download, run by its own",
        f"runner (`onnx.backend.test`, onnx {onnx.__version__}) with `pycandle.onnx_backend` on the reference backend, and with",
        f"ONNX Runtime {onnxruntime.__version__}.",
        "",
        "| tests | all | PyCandle | ONNX Runtime |",
        "|---|---|---|---|",
    ]
    counted = [key for group, keys in groups.items() if group in KINDS.values() for key in keys]
    for group in [*KINDS.values(), *sorted(set(groups) - set(KINDS.values()))]:
        keys = groups.get(group, [])
        lines.append(row(group if group in KINDS.values() else f"apart: {group}", keys, ours, theirs))
    lines.append(row("**all that count**", counted, ours, theirs))
    share = 100 * sum(not ours[key] for key in counted) / max(len(counted), 1)
    behind = [key[1] for key in ours if ours[key] and theirs.get(key) == ""]
    lines += [
        "",
        f"{share:.1f} % pass. ONNX Runtime passes {len(behind)} that we do not: {', '.join(sorted(behind)) or 'none'}.",
        "",
    ]
    reasons = collections.defaultdict(list)
    for key in counted:
        if ours[key]:
            reasons[reason_of(ours[key])].append(key[1].removeprefix("test_"))
    if reasons:
        lines += ["| why a test does not pass | tests |", "|---|---|"]
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            shown = reason.replace("|", "\\|")
            lines.append(
                f"| {shown} | {len(names)}: {', '.join(sorted(names)[:6])}{' …' if len(names) > 6 else ''} |"
            )
    return "\n".join(lines) + "\n"


def row(name: str, keys: list, ours: dict, theirs: dict) -> str:
    passed = [sum(results.get(key) == "" for key in keys) for results in (ours, theirs)]
    return f"| {name} | {len(keys)} | {passed[0]} | {passed[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-k", default="", metavar="REGEX", help="only tests whose name has it; prints why they fail"
    )
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    ours = run("pycandle", chosen.k, chosen.jobs)
    failing = {key: text for key, text in ours.items() if text}
    print(f"{len(ours) - len(failing)} of {len(ours)} pass")
    if chosen.k:
        for (kind, name), text in failing.items():
            print(f"\n{kind} {name}\n{text[-1500:]}")
        return
    for reason, count in collections.Counter(map(reason_of, failing.values())).most_common():
        print(f"{count:5d}  {reason}")
    PAGE.write_text(table(ours, run("onnxruntime", "", chosen.jobs)))


if __name__ == "__main__":
    main()
