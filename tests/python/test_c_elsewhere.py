"""Libraries in C on other machines: 64-bit ARM under qemu, WebAssembly under Node, and how large they are on a Cortex-M."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_c_backend import MODELS, ROOT, WARNINGS, recorded
from test_report_page import FLAGS

pytestmark = pytest.mark.full
CORTEX = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]

NODE = """
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";
const wasi = new WASI({ version: "preview1", args: ["check"], preopens: { ".": process.cwd() } });
const { instance } = await WebAssembly.instantiate(await readFile("check"), wasi.getImportObject());
process.exitCode = wasi.start(instance);
"""

# How a machine compiles the test of a library, and how it runs it.
MACHINES = {
    "aarch64": (["aarch64-linux-gnu-gcc", "-static"], ["qemu-aarch64", "check"]),
    "wasm": (["clang-16", "--target=wasm32-wasi"], ["node", "--no-warnings", "run.mjs"]),
    "wasm with vectors": (["clang-16", "--target=wasm32-wasi", "-msimd128"], ["node", "--no-warnings", "run.mjs"]),
}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def library(request, pycandle, tmp_path_factory) -> Path:
    """model.c with its test, and beside it in tiny/ the same with its weights inside and without libm, where that can be."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    manifest = recorded(request.param, folder, *MODELS[request.param]())
    pycandle("codegen", "--manifest", manifest, "--target", "c", "--out", folder / "model.c")
    (folder / "run.mjs").write_text(NODE)
    return folder


def run(*command, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("machine", MACHINES)
def test_every_layer_is_right_on(machine: str, library: Path) -> None:
    compiler, start = MACHINES[machine]
    flags = [*WARNINGS, "-O2", "-DMODEL_TAPS", "model.c", "model_test.c", "-lm", "-o", "check"]
    run(*compiler, *flags, cwd=library)
    shown = run(*start, cwd=library)
    assert "fine  output" in shown and "WRONG" not in shown


def sizes_of(program: Path) -> dict[str, int]:
    head, numbers = run("arm-none-eabi-size", program.name, cwd=program.parent).splitlines()
    return dict(zip(head.split(), (int(n) for n in numbers.split() if n.isdigit()), strict=False))


def test_a_cortex_m_has_the_weights_in_flash_and_the_arena_in_ram(pycandle, tmp_path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 14 * 14, 32), torch.nn.Sigmoid(), torch.nn.Linear(32, 10),
    )  # fmt: skip
    manifest = recorded("tiny", tmp_path, model, torch.randn(1, 1, 28, 28))
    sizes = {}
    for weights in ("f32", "int8"):
        folder = tmp_path / weights
        facts = pycandle.json(
            "codegen", "--manifest", manifest, "--target", "c", "--weights", weights, "--embed-weights", "--freestanding",
            "--out", folder / "tiny.c",
        )  # fmt: skip
        run(*CORTEX, *WARNINGS, "-Os", "-ffreestanding", "-c", "tiny.c", "-o", "tiny.o", cwd=folder)
        # Nothing but what the compiler itself brings: its arithmetic, and copies of memory.
        wanted = re.findall(r" U (\w+)", run("arm-none-eabi-nm", "tiny.o", cwd=folder))
        assert all(
            name.startswith("__aeabi_") or name in ("memcpy", "memset", "memmove") for name in wanted
        ), wanted
        size = sizes[weights] = sizes_of(folder / "tiny.o")
        assert facts["arena_bytes"] <= size["bss"] <= facts["arena_bytes"] + 128
        assert facts["weight_bytes"] <= size["text"] <= facts["weight_bytes"] + 20_000
        print(f"{weights}: {size['text']} bytes of flash, {size['bss']} of RAM")
    assert sizes["int8"]["text"] < 0.4 * sizes["f32"]["text"]


def test_the_whole_program_fits_a_cortex_m(pycandle, tmp_path) -> None:
    """Linked with newlib: init and run, called from main."""
    torch.manual_seed(0)
    manifest = recorded("mlp", tmp_path, *MODELS["mlp"]())
    pycandle(
        "codegen",
        "--manifest",
        manifest,
        "--target",
        "c",
        "--set",
        "s0=1",
        "--embed-weights",
        "--out",
        tmp_path / "mlp.c",
    )
    (tmp_path / "main.c").write_text(
        '#include "mlp.h"\nstatic float x[20], y[5];\nint main(void) { return mlp_init(0) | mlp_run(x, y); }\n'
    )
    run(*CORTEX, *WARNINGS, "-Os", "--specs=nosys.specs", "-Wl,--gc-sections", "mlp.c", "main.c", "-lm", "-o", "mlp.elf",
        cwd=tmp_path)  # fmt: skip
    size = sizes_of(tmp_path / "mlp.elf")
    assert size["text"] < 64 << 10 and size["bss"] < 8 << 10


def test_a_page_in_a_browser_says_what_torch_says(tmp_path, monkeypatch) -> None:
    """examples/digits: trained, recorded, written as C, compiled to WebAssembly, opened as a file."""
    from playwright.sync_api import sync_playwright
    from sklearn.datasets import load_digits

    example = ROOT / "examples" / "digits"
    shown = run(sys.executable, example / "run.py", "--out", tmp_path, cwd=tmp_path)
    assert float(re.search(r"([\d.]+) % of the images", shown)[1]) > 90
    monkeypatch.syspath_prepend(example)
    from run import Digits

    model = Digits().eval()
    model.load_state_dict(load_file(tmp_path / "digits_weights.safetensors"))
    images = torch.tensor(load_digits().images[1500:1520], dtype=torch.float32)[:, None] / 16
    expected = model(images).detach()
    troubles = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or troubles.append(r.url))
        page.goto((tmp_path / "index.html").as_uri())
        page.wait_for_selector("body[data-ready]")
        for i, scores in enumerate(expected):
            page.click(f"#examples button:nth-child({i + 1})")
            ours = torch.tensor(json.loads(page.get_attribute("body", "data-scores")))
            torch.testing.assert_close(ours, scores, rtol=1e-4, atol=1e-5)
            assert page.inner_text("#answer") == str(int(scores.argmax()))
        browser.close()
    assert troubles == []
