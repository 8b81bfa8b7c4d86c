"""The benchmarks are run by hand; here they are kept from rotting."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import call_cost
import compile_time
import reading_onnx
import scaling
from decoding import aims as decoding_aims
from decoding import growth, shapes
from decoding import report as decoding_report
from peers import aims, baseline, chart, models, report, roofline, runners

ROOT = Path(__file__).parents[2]


def timed(folder: Path, shape: str, *options: str) -> dict:
    shapes.recorded(folder / shape, shapes.SHAPES[shape])  # here, where torch is loaded already
    command = [
        sys.executable,
        "-m",
        "decoding",
        "--shapes",
        shape,
        "--threads",
        "1",
        "--rounds",
        "1",
        *options,
    ]
    command += [
        "--tokens",
        "5",
        "--longest",
        "12",
        "--no-limits",
        "--files",
        folder,
        "--out",
        folder / "rows.json",
    ]
    page = folder / "page.md"
    page.write_text(f"before\n{decoding_report.BEGIN}\n{decoding_report.END}\nafter\n")
    run = subprocess.run(
        [*command, "--page", page],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT / "benchmarks")])},
    )
    assert run.returncode == 0, run.stderr
    assert "| pycandle int4 |" in page.read_text() and page.read_text().endswith("after\n")
    return json.loads((folder / "rows.json").read_text())


@pytest.mark.parametrize("shape", ["gpt2-tiny", pytest.param("llama-tiny", marks=pytest.mark.full)])
def test_decoding_is_timed_beside_torch_and_gives_its_tokens(shape, tmp_path) -> None:
    rows = timed(tmp_path, shape, "--runners", "torch f32,pycandle f32,pycandle int4")["rows"]
    assert {(r["task"], r["runner"]) for r in rows} == {
        (task, runner)
        for task in ("decode", "prefill 128", "prefill 512")
        for runner in ("torch f32", "pycandle f32", "pycandle int4")
    }
    assert all(r["tokens_per_second"] > 0 and r["weights"] > 10_000 for r in rows)


def test_a_longer_cache_is_timed_and_drawn(tmp_path) -> None:
    shape = shapes.SHAPES["gpt2-tiny"]
    found = growth.measured(tmp_path, shape, (4, 24, 64), 1, 1, limits=False)
    assert [row["length"] for row in found["rows"]] == [4, 24, 64] and all(
        row["ms"] > 0 for row in found["rows"]
    )
    assert found["bytes_of_a_token"] == 2 * 2 * 64 * 4, "keys and values of two layers"
    for row in found["rows"]:
        row["at_most_ms"] = row["ms"]
    assert growth.svg(found, shape.title).count("<polyline") == 3


def test_an_aim_of_decoding_holds_by_its_ratio_or_near_the_bandwidth() -> None:
    def row(runner: str, rate: float) -> dict:
        return {"shape": "gpt2-124m", "task": "decode", "threads": 1, "runner": runner, "weights": 125e6} | {
            "tokens_per_second": rate
        }

    rows = [row("pycandle f32", 60), row("candle f32", 50), row("torch f32", 20)]
    (far,) = decoding_aims.judged(rows, {1: 40.0})
    assert (far["peer"], far["ratio"], far["of_bandwidth"], far["holds"]) == ("candle f32", 1.2, 0.75, False)
    assert decoding_aims.judged(rows, {1: 32.0})[0]["holds"], "94 % of the bandwidth"
    assert decoding_aims.judged([row("pycandle f32", 65), *rows[1:]], {})[0]["holds"], "1.3 times the best"
    assert decoding_aims.judged([row("pycandle int8", 65), *rows[1:]], {}) == [], "no peer of its width ran"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    return folder, scaling.recorded_llama(folder)


def test_a_manifest_grows_by_whole_layers_and_stays_a_valid_program(llama) -> None:
    folder, manifest = llama
    small, large = (scaling.measured(folder, scaling.repeated(manifest, count)) for count in (400, 800))
    assert 400 <= small["nodes"] < 500 and 800 <= large["nodes"] < 900
    assert small["nodes_after"] < large["nodes_after"]
    assert large["import_seconds"] > 0 and large["passes"]


@pytest.mark.full
@pytest.mark.parametrize("model", compile_time.MODELS)
def test_a_whole_model_compiles_in_twenty_times_the_time_of_its_headers(model) -> None:
    for row in compile_time.measured(model, ["g++", "clang++-16"]):
        print(row)
        assert row["seconds"] < 20 * compile_time.seconds_of_the_headers(row["compiler"]), row


def test_a_call_of_a_tiny_model_is_measured_with_one_and_two_threads(tmp_path) -> None:
    found = call_cost.measured(tmp_path, layers=2, seconds=0.05)
    assert found["steps"] > 10
    assert set(found["microseconds"]) == {1, 2}


def row(model: str, runner: str, ms: float, **more) -> dict:
    rest = {"best_ms": ms, "spread": 0.1, "ratio": 1.0, "peak_mb": 99.0, "load_ms": 5.0, "import_ms": 0.0}
    rest |= {"bytes": 10**6, "difference": 1e-6, "first_ms": ms, "version": "1"}
    return {"model": model, "threads": 1, "runner": runner, "median_ms": ms, **rest, **more}


ROWS = [
    row("minilm", "pycandle", 9.0),
    row("minilm", "openvino", 10.0),
    row("minilm", "torch", 12.0),
    {"model": "minilm", "threads": 1, "runner": "onnxruntime", "failed": "computes something else"},
]
KERNELS = """avx512, 1 thread: FMA peak 116.1 GFLOP/s, reads 31.0 GB/s (huge pages), 22.4 GB/s (small)
gemm 512x512x512                       2.400 ms    111.8 GFLOP/s   96.3 %
unary exp                              0.010 ms    104.9 GB/s
gemm 1x50257x768                       4.800 ms     32.2 GB/s     103.9 %  more than the machine can do
"""


def test_an_aim_compares_with_the_quickest_of_its_peers() -> None:
    time, first = aims.judged(ROWS)
    assert (time["peer"], time["ratio"], time["holds"]) == ("openvino", 0.9, True)
    assert (first["column"], first["holds"]) == ("first_ms", False)


def test_the_baseline_fails_only_when_every_peer_says_slower(tmp_path) -> None:
    kept = tmp_path / "baseline.json"
    baseline.write(ROWS, kept)
    assert baseline.compared(ROWS, kept)[1]
    bad_moment = [*ROWS[:2], row("minilm", "torch", 6.0)]
    lines, fine = baseline.compared(bad_moment, kept)
    assert fine and any("torch" in line and "slower" in line for line in lines)
    lines, fine = baseline.compared([row("minilm", "pycandle", 13.0), *ROWS[1:]], kept)
    assert not fine and "slower against every peer" in lines[-1]


def test_the_limits_and_the_kernels_of_the_machine_are_read_and_the_impossible_is_seen() -> None:
    found = roofline.read(KERNELS)
    assert (found["fma_gflops"], found["read_huge_gbs"], found["read_small_gbs"]) == (116.1, 31.0, 22.4)
    assert [kernel["share"] for kernel in found["kernels"]] == [
        pytest.approx(0.963),
        None,
        pytest.approx(1.039),
    ]
    assert [bool(kernel["remark"]) for kernel in found["kernels"]] == [False, False, True]


def test_the_page_and_the_picture_hold_every_runner_that_ran_and_every_reason(tmp_path) -> None:
    results = {
        "date": "today",
        "machine": "a machine",
        "cores": 2,
        "threads": [1],
        "models": ["minilm"],
        "rows": ROWS,
        "aims": aims.judged(ROWS),
        "roofline": [roofline.read(KERNELS)],
        "runtimes": {"candle": {"version": "", "megabytes": "", "remark": "not installed: no cargo"}},
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\na run before\n{report.END}\nafter\n")
    report.put_into(page, results)
    text = page.read_text()
    assert text.startswith("before") and text.endswith("after\n") and "a run before" not in text
    for expected in ("| **9** | 10 | failed |", "no cargo", "0.90 × openvino"):
        assert expected in text
    assert "computes something else" in (tmp_path / "tables/page.md").read_text()
    picture = chart.svg(ROWS, {"minilm": "MiniLM"}, 1)
    assert picture.count("<rect") == 4 and "openvino 10 ms" in picture


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1066.1, "1,070"),
        (1000.4, "1,000"),
        (999.7, "1,000"),
        (312.3, "312"),
        (87.26, "87.3"),
        (8.946, "8.95"),
        (0.012, "0.012"),
    ],
)
def test_times_have_three_digits_and_no_exponent(ms, text) -> None:
    assert chart.milliseconds(ms) == text


def test_every_peer_has_a_way_to_start_and_a_place_in_the_report() -> None:
    assert set(runners.PEERS) | {"pycandle"} == set(report.RUNNERS) == set(chart.COLOURS)
    for aim in aims.AIMS:
        assert aim.model in models.BY_NAME and set(aim.best_of) <= set(runners.PEERS)


def test_the_models_of_the_benchmark_are_the_same_every_time() -> None:
    entry = models.BY_NAME["lstm"]
    first, again = (models.built(entry).state_dict() for _ in range(2))
    assert all((first[name] == again[name]).all() for name in first)
    assert (models.inputs_of(entry)["x"] == models.inputs_of(entry)["x"]).all()


def test_reading_onnx_times_both(tmp_path) -> None:
    reading_onnx.stack(tmp_path / "small.onnx", width=8)
    ours, theirs = reading_onnx.measured(tmp_path / "small.onnx", rounds=1)
    assert ours > 0 and theirs > 0
