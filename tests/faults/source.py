"""Faults in source code: the edited headers of a model are compiled together, each in a namespace of its own, and each
writes the program that it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from pathlib import Path

from .sites import number
from .source_edits import Edit, Header, edits_of

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PYCANDLE_BUILD", ROOT / "build" / "release"))
FLAGS = ("-std=c++20", "-O0", "-w", "-I", str(ROOT / "include"))

BEGIN = """#include <pycandle/pycandle.h>

#include <iostream>
#include <map>
#include <stdexcept>

namespace faults {
// Another parameter of the same type.
inline std::string like(const std::string& name) {
  static const std::map<std::string, std::string> others{OTHERS};
  return others.at(name);
}
inline void enter(const char* name, const std::string& path) {
  std::cout << "enter " << name << " " << path << "\\n";
}
template <class Model>
void save(const char* number, const std::string& folder, const std::string& recording, const std::string& out) try {
  using namespace pycandle;
  const std::string manifest = folder + "/" + recording + "_manifest.json";
  const Model model(Weights::open(manifest), Checker::load(recording, folder));
  compile(model, signature_of(manifest)).save(out + "/" + number + ".ptir");
} catch (const std::exception& error) {
  std::cerr << number << ": " << error.what() << "\\n";
}
}  // namespace faults
"""


def emitted(program: Path, manifest: Path, folder: Path) -> tuple[str, str, str]:
    """(text, class, namespace) of the model as codegen writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "model.hpp"
    command = [program, "codegen", "--manifest", manifest, "--out", out, "--json"]
    said = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout
    made = json.loads(said)
    return out.read_text(), made["model"], made["namespace"]


ONE_AT_A_TIME = threading.Lock()


def precompiled(folder: Path) -> Path:
    """The library's headers, parsed once for all models."""
    with ONE_AT_A_TIME:
        return _precompiled(folder)


def _precompiled(folder: Path) -> Path:
    header = folder / "headers.h"
    done = folder / "headers.h.gch"
    newest = max(h.stat().st_mtime for h in (ROOT / "include/pycandle").glob("*.h"))
    if not done.exists() or done.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        header.write_text("#include <pycandle/pycandle.h>\n")
        fresh = folder / f"headers.{os.getpid()}.gch"
        command = ["g++-12", *FLAGS, "-x", "c++-header", str(header), "-o", str(fresh)]
        subprocess.run(command, check=True)
        fresh.rename(done)
    return header


def body_of(text: str, name_space: str, variant: str) -> str:
    """The header without its includes, in another namespace."""
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return re.sub(rf"^namespace {name_space} \{{", f"namespace {variant} {{", text, flags=re.M)


def traced(header: Header) -> str:
    """Says which module each struct is, in the order in which they are called."""
    text = header.text
    for struct in reversed(header.structs):
        start, end = header.forward(struct)
        if start < end:
            text = f'{text[:start]}{{\n    faults::enter("{struct}", this->path());{text[start + 1 :]}'
    return text


def others(parameters: list[dict]) -> str:
    """C++: each parameter's name, and that of another one of its type."""
    pairs = []
    for at, used in enumerate(parameters):
        later = parameters[at + 1 :] + parameters[:at]
        like = next((p["name"] for p in later if p["type"] == used["type"]), None)
        if like:
            pairs.append(f'{{"{used["name"]}", "{like}"}}')
    return "{" + ", ".join(pairs) + "}"


class SourceFaults:
    """The captured programs of a model: as emitted (0.ptir), and with each edit."""

    def __init__(self, program: Path, manifest: Path, folder: Path, choose) -> None:
        self.folder = folder
        self.name = manifest.name.removesuffix("_manifest.json")
        text, model, name_space = emitted(program, manifest, folder)
        parameters = [
            {"name": p["name"], "type": f"{p['dtype']}{p['shape']}"}
            for p in json.loads(manifest.read_text())["parameters"]
        ]
        self.edits: list[Edit] = choose(list(edits_of(text)))
        texts = [traced(Header(text)), *(edit.applied(text) for edit in self.edits)]
        like = r'"@LIKE ([\w.]+)@"'
        texts = [
            re.sub(like, r'faults::like(w.path() + (w.path().empty() ? "" : ".") + "\1")', t) for t in texts
        ]
        unit = BEGIN.replace("OTHERS", others(parameters))
        unit += "".join(body_of(t, name_space, f"v{i}") for i, t in enumerate(texts))
        saves = "".join(
            f'  faults::save<v{i}::{model}>("{i}", argv[1], argv[2], argv[3]);\n' for i in range(len(texts))
        )
        unit += f"int main(int, char** argv) {{\n{saves}}}\n"
        self._build(unit)
        said = subprocess.run(
            [folder / "variants", manifest.parent, self.name, folder],
            capture_output=True,
            text=True,
            check=True,
        )
        self.refused = dict(line.split(": ", 1) for line in said.stderr.splitlines() if ": " in line)
        self.path_of: dict[str, str] = {}
        for line in said.stdout.splitlines():
            _, struct, path = line.split(" ", 2)
            self.path_of.setdefault(struct, path)

    def _build(self, unit: str) -> None:
        source, binary = self.folder / "variants.cpp", self.folder / "variants"
        if binary.exists() and source.exists() and source.read_text() == unit:
            return
        binary.unlink(missing_ok=True)
        source.write_text(unit)
        headers = precompiled(self.folder.parent / "headers")
        library = BUILD / "libpycandle.so"
        command = [
            "g++-12",
            *FLAGS,
            "-include",
            headers,
            source,
            "-o",
            binary,
            library,
            f"-Wl,-rpath,{BUILD}",
        ]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr[:3000]}")

    def faults(self) -> list[dict]:
        """What to tell the fault runner, and what to expect of it. Edits that are refused when the model is built are no
        faults: nobody can run them."""
        found = []
        for index, edit in enumerate(self.edits, 1):
            if str(index) in self.refused or edit.struct not in self.path_of:
                continue
            outer = self.path_of[edit.struct]
            inner = ".".join(part for part in (outer, edit.member) if part)
            found.append(
                {
                    "where": "source",
                    "op": edit.op,
                    "path": f"{inner}@0" if inner else "",
                    "outer": None if not edit.is_call else f"{outer}@0" if outer else "",
                    "kind": edit.kind,
                    "what": f"{edit.struct}: {edit.what}",
                    "program": str(self.folder / f"{index}.ptir"),
                    "unedited": str(self.folder / "0.ptir"),
                    "rank": rank(self.name, edit),
                }
            )
        return found


def rank(model: str, edit: Edit) -> int:
    return number(model, "source", edit.struct, edit.member, edit.kind, edit.what)


def chosen_edits(model: str, edits: list[Edit], per_kind: int, outside: int) -> list[Edit]:
    """A few of each kind and op, always the same ones."""
    taken: dict[tuple, int] = {}
    kept = []
    for edit in sorted(edits, key=lambda edit: rank(model, edit)):
        key = (edit.kind, edit.op) if edit.kind else ("outside",)
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= (per_kind if edit.kind else outside):
            kept.append(edit)
    return kept
