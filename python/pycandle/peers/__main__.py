"""python -m pycandle.peers: what `pycandle bench --against` starts. One process makes the files, then one runs each peer."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
from pathlib import Path

from ..recording.processor import make_bf16_safe
from . import PEERS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pycandle.peers", description=__doc__)
    parser.add_argument("peers", nargs="+", choices=list(PEERS))
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True, help="a safetensors file")
    parser.add_argument("--files", type=Path, required=True, help="the folder of exported models")
    parser.add_argument("--outputs", type=Path, help="run the peer, and write its first outputs here")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    _require(options.peers)
    make_bf16_safe()
    from .worker import Answers, Job

    answers = Answers()
    job = Job(options.manifest, options.inputs, options.outputs, options.files, options.threads)
    try:
        if options.outputs is None:
            answers({"failed": prepared(job, options.peers)})
        else:
            (name,) = options.peers
            _serve(answers, job, name)
    except Exception as error:
        answers.refusal(error)
        return 1
    return 0


def _require(names: list[str]) -> None:
    """Before anything is imported: says which packages are missing, as an answer."""
    import json

    needed = {package: name for name in names for package in ("numpy", *PEERS[name].needs)}
    missing = [package for package in needed if not _installed(package)]
    if missing:
        print(
            json.dumps(
                {
                    "error": f"{', '.join(dict.fromkeys(needed[p] for p in missing))} cannot run: "
                    f"{sys.executable} lacks {', '.join(missing)}",
                    "hint": f"pip install {' '.join(missing)} there, or name another Python with --python",
                }
            )
        )
        sys.exit(1)


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def prepared(job, names: list[str]) -> dict[str, str]:
    """Makes the files that the peers load, those that are not there yet; why one could not be made, by peer."""
    missing = [name for name in names if PEERS[name].export and not (job.files / PEERS[name].export).exists()]
    failed: dict[str, str] = {}
    if missing:
        from .exports import export
        from .rebuilt import Rebuilt

        rebuilt = Rebuilt(job.manifest, job.tensors())
        input_names = [entry["name"] for entry in rebuilt.manifest["inputs"]]
        for name in missing:
            try:
                export(rebuilt.module, rebuilt.inputs, input_names, job.files / PEERS[name].export)
            except Exception as error:
                failed[name] = f"{PEERS[name].export} could not be made: {error}"
    return failed


def _serve(answers, job, name: str) -> None:
    from .worker import serve

    peer = importlib.import_module(f".{PEERS[name].module}", __package__)
    serve(answers, peer.version, job.outputs, lambda: peer.load(job))


if __name__ == "__main__":
    sys.exit(main())
