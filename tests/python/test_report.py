"""`pycandle report`: what it says, and that names from outside stay text. tests/python/test_report_page.py opens the page."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from report_models import HOSTILE, SCRIPT, data_of, edited, with_hostile_texts
from safetensors.torch import load_file, save_file


@pytest.fixture(scope="module")
def result(pycandle, good, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("result") / "good.jsonl"
    pycandle("verify", good, "--out", out)
    return out


def document(pycandle, out: Path, *arguments) -> dict:
    pycandle("report", *arguments, "--format", "json", "-o", out)
    return json.loads(out.read_text())


def test_the_page_holds_what_json_holds_and_loads_nothing(pycandle, good, result, tmp_path) -> None:
    facts = document(pycandle, tmp_path / "r.json", good, "--result", result)
    said = pycandle("report", good, "--result", result, "-o", tmp_path / "r.html").stdout
    page = (tmp_path / "r.html").read_text()
    assert data_of(page) == facts
    assert "All" in said and "r.html" in said
    assert facts["summary"]["status"] == "passed" and facts["seed"] == "0"
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    assert len(page) < 300_000


def test_a_wrong_layer_comes_with_its_line_cause_and_replay(pycandle, broken, wrong, tmp_path) -> None:
    facts = document(pycandle, tmp_path / "r.json", broken, "--result", wrong)
    assert facts["summary"]["status"] == "wrong"
    assert "blocks.1.act@0/output" in facts["summary"]["sentence"] and "GELU" in facts["summary"]["sentence"]
    texts = facts["texts"]
    (layer,) = [row for row in facts["result"]["layers"] if texts[row["verdict"]] == "wrong here"]
    node = dict(
        zip(
            facts["program"]["nodes"]["fields"], facts["program"]["nodes"]["rows"][layer["node"]], strict=True
        )
    )
    assert texts[node["op"]] == "gelu" and "tanh" in node["text"]
    call = facts["program"]["calls"]["rows"][layer["call"]]
    assert call[0] == "blocks.1.act"
    assert "GELU" in layer["diagnosis"]["cause"]
    commands = [step["command"] for step in facts["summary"]["next"]]
    assert any(
        command.startswith("pycandle replay pycandle_repro/blocks.1.act@0-output") for command in commands
    )


def test_the_program_is_complete_and_every_node_has_its_line_of_source(pycandle, good, tmp_path) -> None:
    facts = document(pycandle, tmp_path / "r.json", good)
    program = facts["program"]
    nodes = [dict(zip(program["nodes"]["fields"], row, strict=True)) for row in program["nodes"]["rows"]]
    assert sum(facts["texts"][n["op"]] == "linear" for n in nodes) == 7
    for node in nodes:
        assert node["text"].startswith(f"%{node['results'][0]} = {facts['texts'][node['op']]}(")
        assert node["line"] in dict(program["files"][node["file"]]["lines"])
    paths = [row[0] for row in program["calls"]["rows"]]
    assert "blocks.2.down" in paths and "" in paths


def test_a_layer_that_differs_has_its_picture_and_its_errors_by_size(
    pycandle, broken, wrong, tmp_path
) -> None:
    facts = document(pycandle, tmp_path / "r.json", broken, "--result", wrong)
    (layer,) = [row for row in facts["result"]["layers"] if facts["texts"][row["verdict"]] == "wrong here"]
    picture = layer["picture"]
    assert (picture["rows"], picture["columns"]) == (10, 32) and len(picture["cells"]) == 320
    assert "z" in picture["cells"] and picture["largest"] == layer["max_abs"]
    assert sum(layer["errors"]["counts"]) == layer["differing"]
    exact = [row for row in facts["result"]["layers"] if facts["texts"][row["verdict"]] == "exact"]
    assert exact and not any("picture" in row for row in exact)


def test_each_node_has_its_line_of_cpp(pycandle, good, tmp_path) -> None:
    pycandle("codegen", "--manifest", good, "--out", tmp_path / "emitted")
    facts = document(pycandle, tmp_path / "r.json", good, "--code", tmp_path / "emitted")
    code, nodes = facts["code"], facts["program"]["nodes"]["rows"]
    assert code["path"].endswith("emitted/src/model.hpp") and not code["edited"]
    texts = facts["texts"]
    lines = {texts[row[0]]: code["text"][code["lines"][i] - 1] for i, row in enumerate(nodes)}
    assert all(line > 0 for line in code["lines"])
    assert "down(act(up(norm(x))))" in lines["gelu"] and "+" in lines["add"]
    assert len({code["lines"][i] for i, row in enumerate(nodes) if texts[row[0]] == "gelu"}) == 1  # one class
    header = tmp_path / "emitted" / "src" / "model.hpp"
    text = header.read_text()
    header.write_text("// mine\n" + text.replace("return x + down(", "return 2.0 * x + down("))
    moved = document(pycandle, tmp_path / "e.json", good, "--code", header)
    assert moved["code"]["edited"] and any("edited" in note for note in moved["notes"])
    assert [line - 1 for line in moved["code"]["lines"]] == code["lines"]


def test_code_of_another_program_is_refused(pycandle, good, broken, tmp_path) -> None:
    pycandle("codegen", "--manifest", good, "--out", tmp_path / "model.hpp")
    refused = pycandle(
        "report", broken, "--code", tmp_path / "model.hpp", "-o", tmp_path / "r.html", status=2
    )
    assert "another program" in refused.stderr and "codegen" in refused.stderr
    (tmp_path / "other.hpp").write_text("struct Model {};\n")
    unknown = pycandle("report", good, "--code", tmp_path / "other.hpp", "-o", tmp_path / "r.html", status=2)
    assert "not known which line" in unknown.stderr


def test_without_a_result_it_says_how_to_get_one(pycandle, good, tmp_path) -> None:
    facts = document(pycandle, tmp_path / "r.json", good)
    assert facts["summary"]["status"] == "not verified" and facts["result"] is None
    assert any("pycandle verify" in step["command"] for step in facts["summary"]["next"])
    assert any("--profile" in step["command"] for step in facts["summary"]["next"])


def test_a_hostile_name_is_text_everywhere(pycandle, good, tmp_path) -> None:
    manifest = edited(good, tmp_path / "it's hostile", with_hostile_texts)
    pycandle("verify", manifest, "--out", tmp_path / "r.jsonl")
    pycandle(
        "report",
        manifest,
        "--result",
        tmp_path / "r.jsonl",
        "-o",
        tmp_path / "r.html",
        "--badge",
        tmp_path / "b.svg",
    )
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page and page.count("</script>") == 2
    assert (
        data_of(page)["name"] == HOSTILE
        and SCRIPT in data_of(page)["notes"]
        and SCRIPT in data_of(page)["texts"]
    )
    ElementTree.parse(tmp_path / "b.svg")
    summary = pycandle("report", manifest, "--format", "md", "-o", "-").stdout
    assert "<script>" not in summary.replace("\\<", "") and summary.startswith("# \\<")
    quoted = str(manifest.parent).replace("'", "'\\''")
    assert f"'{quoted}" in summary, "the path of the command must be quoted for a shell"


def test_markdown_lists_verdicts_and_what_changed_since_the_baseline(pycandle, broken, wrong, result) -> None:
    text = pycandle(
        "report", broken, "--result", wrong, "--baseline", result, "--format", "md", "-o", "-"
    ).stdout
    assert "| wrong here | 1 |" in text
    assert "| worse | `blocks.1.act@0/output` |" in text


def test_the_badge_says_the_verdict(pycandle, good, broken, result, wrong, tmp_path) -> None:
    for manifest, file, words in [
        (good, result, "layers right"),
        (broken, wrong, "1 wrong"),
        (good, None, "not verified"),
    ]:
        given = ["--result", file] if file else []
        pycandle(
            "report",
            manifest,
            *given,
            "--format",
            "md",
            "-o",
            tmp_path / "r.md",
            "--badge",
            tmp_path / "b.svg",
        )
        assert words in "".join(ElementTree.parse(tmp_path / "b.svg").getroot().itertext())


def test_the_profile_gives_every_step_and_those_of_two_backends_stand_side_by_side(
    pycandle, good, tmp_path
) -> None:
    profile = pycandle("forward", good, "--profile", "--json").stdout
    (tmp_path / "a.json").write_text(profile)
    (tmp_path / "b.json").write_text(profile)
    facts = document(
        pycandle,
        tmp_path / "r.json",
        good,
        "--profile",
        tmp_path / "a.json",
        "--profile",
        tmp_path / "b.json",
    )
    assert [p["file"] for p in facts["profiles"]] == ["a.json", "b.json"]
    steps = json.loads(profile)["profile"]["steps"]
    assert len(facts["profiles"][0]["steps"]) == len(steps) > 3
    buffers = facts["profiles"][0]["buffers"]
    arena = json.loads(profile)["profile"]["arena_bytes"]
    assert buffers and max(offset + size for offset, size, _, _ in buffers) <= arena
    for i, (offset, size, first, last) in enumerate(buffers):  # two that live at the same time do not overlap
        assert 1 <= first <= last < len(steps) - 1
        for other, length, begin, end in buffers[:i]:
            assert end < first or last < begin or other + length <= offset or offset + size <= other
    assert sum(s["ms"] for s in steps) <= 1.01 * json.loads(profile)["profile"]["ms"]


def test_weights_that_are_dead_damaged_or_equal_are_found(pycandle, good, tmp_path) -> None:
    shutil.copytree(good.parent, tmp_path / "m")
    (weights,) = (tmp_path / "m").glob("*_weights.safetensors")
    tensors = load_file(weights)
    tensors["blocks.0.up.bias"].zero_()
    tensors["blocks.1.up.bias"][3] = float("nan")
    tensors["blocks.0.up.weight"][5:7] = 0
    tensors["blocks.2.down.weight"] = tensors["blocks.0.down.weight"].clone()
    save_file(tensors, weights)
    rows = {r["name"]: r for r in document(pycandle, tmp_path / "r.json", tmp_path / "m")["weights"]["rows"]}
    assert rows["blocks.0.up.bias"]["odd"] == "all zero"
    assert rows["blocks.1.up.bias"]["odd"] == "1 NaN"
    assert rows["blocks.0.up.weight"]["dead_rows"] == [2, 32] and "dead_rows" not in rows["head.weight"]
    assert rows["blocks.2.down.weight"]["same_as"] == "blocks.0.down.weight"
    assert sum(rows["head.weight"]["histogram"]) == 16 * 8
    left_out = document(pycandle, tmp_path / "n.json", tmp_path / "m", "--no-weights")["weights"]
    assert "--no-weights" in left_out["no_statistics"] and "min" not in left_out["rows"][0]


def test_a_model_with_gaps_has_a_report_that_names_them(pycandle, good, tmp_path) -> None:
    def with_gap(document: dict) -> None:
        for node in document["nodes"]:
            if node["op"] == "aten.gelu.default":
                node["op"] = "aten.nothing_known.default"

    facts = document(pycandle, tmp_path / "r.json", edited(good, tmp_path / "m", with_gap))
    (gap,) = facts["coverage"]["gaps"]
    assert gap["op"] == "aten.nothing_known.default" and gap["count"] == 3
    assert facts["coverage"]["supported"] == facts["coverage"]["nodes"] - 3


def test_files_that_do_not_belong_together_are_refused(pycandle, good, result, tmp_path) -> None:
    other = edited(good, tmp_path / "other", lambda d: d.update(name="other"))
    refused = [
        (["report", other, "--result", result], "another model"),
        (["report", good, "--baseline", result], "--baseline needs --result"),
        (["report", good, "--profile", result], "result"),
        (["report", good, "--result", tmp_path / "none.jsonl"], "none.jsonl"),
    ]
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(result.read_text().splitlines()[:-1]) + "\n")
    refused.append((["report", good, "--result", cut], "not complete"))
    for arguments, words in refused:
        said = pycandle(*arguments, "-o", tmp_path / "r.html", status=2)
        assert words in said.stderr, arguments
        assert not (tmp_path / "r.html").exists()


def test_a_manifest_that_changed_after_the_verification_is_noted(pycandle, good, result, tmp_path) -> None:
    changed = edited(good, tmp_path / "m", lambda d: d.setdefault("notes", []).append("later"))
    facts = document(pycandle, tmp_path / "r.json", changed, "--result", result)
    assert any("changed after this verification" in note for note in facts["notes"])


def test_a_bundle_has_a_report_with_its_program_and_weights(pycandle, good, tmp_path) -> None:
    pycandle("bundle", good, "--out", tmp_path / "m.pycandle", "--weights", "int8")
    facts = document(pycandle, tmp_path / "r.json", tmp_path / "m.pycandle")
    assert facts["bundle"] and len(facts["program"]["nodes"]["rows"]) > 10
    rows = {row["name"]: row for row in facts["weights"]["rows"]}
    assert rows["blocks.0.up.weight"]["min"] < 0 < rows["blocks.0.up.weight"]["max"]
    assert all("codegen" not in step["command"] for step in facts["summary"]["next"])
