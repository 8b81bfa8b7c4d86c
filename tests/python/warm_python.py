"""Runs Python scripts as `python script.py` does, without the seconds that loading torch takes: each in a fork of a process that
has loaded torch and transformers, and traced once."""

from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


class WarmPython:
    def __init__(self, environment: dict[str, str]) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self, script: Path, folder: Path, *arguments: object, **environment: str
    ) -> subprocess.CompletedProcess:
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            what = [str(script), str(folder), out.name, err.name, list(map(str, arguments)), environment]
            self._server.stdin.write(json.dumps(what) + "\n")
            self._server.stdin.flush()
            status = self._server.stdout.readline()
            assert status, "the process that runs scripts has died"
            return subprocess.CompletedProcess([script, *arguments], int(status), out.read(), err.read())

    def close(self) -> None:
        self._server.communicate()


def _serve() -> None:
    import torch
    import transformers.models.llama.modeling_llama  # noqa: F401 (pages use it)

    from pycandle import GoldenRecorder

    GoldenRecorder(progress=lambda text: None).record(torch.nn.ReLU().eval(), torch.zeros(2, 3))
    gc.freeze()  # a fork need not look through all of torch for garbage
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_status_of(*json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _status_of(script: str, folder: str, out: str, err: str, arguments: list[str], environment: dict) -> int:
    os.chdir(folder)
    os.environ.update(environment)
    for stream, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(stream, os.O_RDWR | os.O_APPEND), descriptor)
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
    sys.modules.pop("__main__", None)
    try:
        runpy.run_path(script, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    _serve()
