"""`pycandle record`: runs a recording script, or records a model that a factory builds.

Examples:
    pycandle record                                     runs .pycandle/scripts/recorder.py
    pycandle record --script S --name N --out DIR
    pycandle record --model torchvision.models:resnet18 --input "x=f32[1,3,224,224]" --perturb
    pycandle record model.onnx --inputs batch.safetensors   with ONNX Runtime's values as goldens
    pycandle record --model mypkg.model:make --kwargs '{"layers": 2}' --input "input_ids=i64[1,8]<1000"

Exit: 0 recorded, 1 the model is refused, 2 bad input or usage, 3 internal error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

DEFAULT_SCRIPT = Path(".pycandle/scripts/recorder.py")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="pycandle record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = made.add_argument_group("what to record")
    _add_onnx(what)
    what.add_argument(
        "--script", type=Path, help=f"a Python script that uses GoldenRecorder ({DEFAULT_SCRIPT})"
    )
    what.add_argument("--model", help="package.module:factory, a class or a function that returns the model")
    what.add_argument("--kwargs", default="{}", help="the factory's keyword arguments, as JSON")
    what.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=DTYPE[SIZES]",
        help='random values: "x=f32[1,3,8,8]", "ids=i64[2,8]<1000", "ids=i64[2,8]:5..9", "mask=bool[2,8]"',
    )
    what.add_argument("--inputs", type=Path, metavar="FILE", help="inputs by name from a safetensors file")
    what.add_argument("--seed", type=_seed, help="for weights, random inputs and random operators (0)")
    what.add_argument("--perturb", action="store_true", help="move every parameter off its initial value")
    what.add_argument(
        "--meta", action="store_true", help="build model and inputs without values, on the meta device"
    )
    what.add_argument(
        "--time", action="store_true", help="record nothing: time the model in PyTorch, for comparisons"
    )
    how = made.add_argument_group("how")
    how.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="AXES",
        help='open axes: "all" that the model leaves open, "none", "batch", or "input_ids=0,1" / "input_ids=0:batch,1:seq" (repeatable); '
        "default: batch, and sequence of token inputs",
    )
    how.add_argument("--taps", choices=("modules", "all", "none"), help="which values get goldens (modules)")
    how.add_argument("--golden-budget", metavar="BYTES", help="most bytes of goldens, such as 500M")
    how.add_argument(
        "--weights", choices=("save", "ref", "none"), help="save, refer to files, or leave out (save)"
    )
    how.add_argument(
        "--weights-file", type=Path, action="append", help="a safetensors file for --weights ref"
    )
    how.add_argument("--no-source", action="store_true", help="leave source lines out of the manifest")
    where = made.add_argument_group("where to")
    where.add_argument("--name", help="the recording's name; wins over the script's save(…)")
    where.add_argument("--out", type=Path, help="the folder to write into; wins over the script's output_dir")
    where.add_argument("--json", action="store_true", help="one JSON object on standard output")
    where.add_argument("--quiet", action="store_true", help="say nothing but errors")
    return made


def _add_onnx(what) -> None:
    what.add_argument("onnx", type=Path, nargs="?", metavar="MODEL.onnx", help="an ONNX file")
    what.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SIZE=NUMBER",
        help="of an ONNX file: the size of an open axis, as `pycandle inspect` names it (s0=4)",
    )


def _seed(text: str) -> int:
    if not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {2**63 - 1}, found {text}")
    return int(text)


def main(arguments: list[str] | None = None, program: str = "") -> int:
    """`program`: the path of pycandle, which reads ONNX files."""
    options = parser().parse_args(arguments)
    started = time.monotonic()
    from ..errors import RecordingError, UsageError

    try:
        if options.onnx:
            return _record_onnx(options, program)
        from .processor import make_bf16_safe

        make_bf16_safe()
        with _standard_output_kept(options.json):
            done = _time(options) if options.time else _run(options)
    except RecordingError as error:
        return _fail(options, 1, "refused", error.as_json(), f"error: {error}")
    except UsageError as error:
        return _fail(options, 2, "usage", {"error": str(error)}, f"error: {error}")
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return _fail(
            options, 3, "internal", {"error": str(error), "traceback": text}, f"{text}internal error: {error}"
        )
    if options.time:
        _report_timings(options, done)
    else:
        _report(options, done, time.monotonic() - started)
    return 0


@contextlib.contextmanager
def _standard_output_kept(for_json: bool):
    """What a script prints must not mix with the JSON result."""
    if for_json:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def _fail(options, code: int, status: str, facts: dict, text: str) -> int:
    if options.json:
        print(json.dumps({"status": status, **facts}))
    else:
        print(text, file=sys.stderr)
    return code


def _run(options):
    """Records; the overrides know what was saved."""
    from ..errors import UsageError
    from .files.folders import check_writable
    from .recorder import GoldenRecorder

    _check_options(options)
    if options.out:
        check_writable(options.out)
    with _overriding(options) as overrides:
        if options.model:
            model, args, kwargs = _model_and_inputs(options)
            recorder = GoldenRecorder()
            recorder.record(model, *args, **kwargs)
            recorder.save(options.name or options.model.partition(":")[2].rsplit(".", 1)[-1])
            return overrides
        script = _run_script(options, overrides)
        if not overrides.saved:
            raise UsageError(
                f"{script.name} ran, but never called save(name) on a GoldenRecorder: nothing was recorded"
            )
    return overrides


def _record_onnx(options, program: str) -> int:
    """An ONNX file, with what ONNX Runtime computes as goldens."""
    from ..errors import UsageError
    from .files.folders import check_writable
    from .onnx_files import record_file

    for name in ("model", "script", "input", "perturb", "meta", "dynamic", "weights_file", "time"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with an ONNX file")
    if not options.onnx.is_file():
        raise UsageError(f"no such file: {options.onnx}")
    sizes = {}
    for text in options.set:
        name, equals, number = text.partition("=")
        if not equals or not number.isdigit():
            raise UsageError(f"cannot read --set {text!r}: s0=4")
        sizes[name] = int(number)
    given = {}
    if options.inputs:
        from safetensors.numpy import load_file

        given = load_file(options.inputs)
    out = options.out or Path("pycandle_trace")
    check_writable(out)
    made = record_file(
        program, options.onnx, out, options.name, given, sizes, options.seed or 0, options.taps or "all"
    )
    if options.json:
        facts = {
            "manifest": str(made.manifest),
            "trace": str(made.trace),
            "taps": made.taps,
            "nodes": made.nodes,
        }
        print(json.dumps({"status": "ok", "recordings": [facts]}))
    elif not options.quiet:
        print(f"recorded {options.onnx.name}: {made.nodes} nodes, {made.taps} values of ONNX Runtime")
        print(f"  {made.manifest}\nNext: pycandle verify {made.manifest}")
    return 0


def _time(options) -> list:
    """Times what would be recorded."""
    from ..errors import UsageError
    from .timing import scripts_time_models, time_model

    _check_options(options)
    with _overriding(options) as overrides, scripts_time_models() as timings:
        if options.model:
            return [time_model(*_model_and_inputs(options), options.seed or 0)]
        script = _run_script(options, overrides)
    if not timings:
        raise UsageError(f"{script.name} ran, but never called record(model, …) on a GoldenRecorder")
    return timings


def _check_options(options) -> None:
    from ..errors import UsageError

    if options.model and options.script:
        raise UsageError("--model and --script exclude each other")
    for name in ("input", "inputs", "perturb", "meta"):
        if not options.model and getattr(options, name):
            raise UsageError(f"--{name} goes with --model; a script makes its own")


def _overriding(options):
    from .settings import Overrides, overriding

    return overriding(Overrides(options.out, options.name, None, _recorder_options(options)))


def _recorder_options(options) -> dict:
    """Only what was said: a script's own choices stand otherwise."""
    from .progress import SILENT

    chosen: dict = {}
    for name in ("taps", "weights", "seed"):
        if getattr(options, name) is not None:
            chosen[name] = getattr(options, name)
    if options.dynamic:
        chosen["dynamic"] = parse_dynamic(options.dynamic)
    if options.golden_budget is not None:
        chosen["golden_budget"] = parse_bytes(options.golden_budget)
    if options.weights_file:
        chosen["weights_files"] = options.weights_file
    if options.no_source:
        chosen["source"] = False
    if options.quiet:
        chosen["progress"] = SILENT
    return chosen


def parse_dynamic(texts: list[str]):
    """`all`, `none`, `batch`, or axes per input, `ids=0,1` or `ids=0:batch,1:seq`."""
    from ..errors import UsageError

    if len(texts) == 1 and texts[0] in ("all", "none", "batch"):
        return texts[0]
    axes: dict[str, dict[int, str]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        try:
            pairs = [part.partition(":") for part in listed.split(",")]
            axes[name] = {int(axis): label or f"axis {int(axis)}" for axis, _, label in pairs}
        except ValueError:
            equals = ""
        if not equals or not name:
            raise UsageError(f'cannot read --dynamic {text!r}: "all", "none", "batch" or "input_ids=0,1"')
    return axes


def parse_bytes(text: str) -> int:
    from ..errors import UsageError

    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    try:
        number = int(text) if text[-1:].isdigit() else int(float(text[:-1]) * units[text[-1].upper()])
    except (KeyError, ValueError, IndexError):
        raise UsageError(f"cannot read the size {text!r}: a number of bytes, or 500K, 20M, 1G") from None
    if number < 0:
        raise UsageError("--golden-budget cannot be negative")
    return number


# ---- a script -------------------------------------------------------------------------------------------------


def _run_script(options, overrides) -> Path:
    import runpy

    from .. import spy
    from ..errors import UsageError

    script = (options.script or DEFAULT_SCRIPT).resolve()
    if not script.is_file():
        hint = "" if options.script else " (give --script or --model; --help shows examples)"
        raise UsageError(f"no such script: {options.script or DEFAULT_SCRIPT}{hint}")
    overrides.base = script.parent
    if not (script.parent / "spy.py").exists():
        sys.modules["spy"] = spy
    sys.path.insert(0, str(script.parent))
    before = sys.argv
    sys.argv = [str(script)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise UsageError(f"the script ended with {stop.code!r}") from stop
    except Exception as error:
        _blame_script(script, error)
        raise
    finally:
        sys.argv = before
        sys.path.remove(str(script.parent))
    return script


def _blame_script(script: Path, error: Exception) -> None:
    """An error that arose in the user's own code is theirs to mend: no traceback of ours."""
    from ..errors import RecordingError, UsageError
    from .places import is_own_file

    if isinstance(error, (RecordingError, UsageError)):
        return
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == str(script)]
    after = frames[frames.index(inside[-1]) + 1 :] if inside else frames
    if any(is_own_file(frame.filename) for frame in after):
        return
    where = f"\n  at    {script.name}:{inside[-1].lineno}: {inside[-1].line}" if inside else ""
    raise UsageError(f"the script failed: {type(error).__name__}: {error}{where}") from error


# ---- a factory ------------------------------------------------------------------------------------------------


def _model_and_inputs(options) -> tuple:
    """The model, and the arguments it is called with."""
    import torch

    from .perturbation import perturb

    seed = options.seed or 0
    factory = _find_factory(options.model)
    torch.manual_seed(seed)
    model = _build(factory, options)
    args, kwargs = _inputs_for(model, options, seed)
    if options.perturb:
        perturb(model, seed)
    return model, args, kwargs


def _find_factory(text: str):
    import importlib

    from ..errors import UsageError

    module_name, colon, path = text.partition(":")
    if not colon or not path or not module_name:
        raise UsageError(f"--model {text!r} is not package.module:factory")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"cannot import {module_name}: {error}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(f"{module_name} has no {path}")
        found = getattr(found, name)
    return found


def _build(factory, options):
    import torch

    from ..errors import UsageError

    try:
        arguments = json.loads(options.kwargs)
    except json.JSONDecodeError as error:
        raise UsageError(f"--kwargs is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError("--kwargs must be a JSON object")
    if isinstance(factory, torch.nn.Module):
        return factory.eval()
    try:
        with torch.device("meta") if options.meta else contextlib.nullcontext():
            model = factory(**arguments)
    except Exception as error:
        raise UsageError(f"{options.model} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{options.model} returned {type(model).__name__}, not an nn.Module")
    return model.eval()


def _inputs_for(model, options, seed: int) -> tuple[tuple, dict]:
    import inspect

    import torch

    from ..errors import UsageError
    from .inputs import arguments_by_name, parse_input
    from .preparation import unwrapped

    named: dict = {}
    if options.inputs:
        named.update(_read_inputs(options.inputs))
    generator = torch.Generator().manual_seed(seed)
    for text in options.input:
        name, tensor = parse_input(text, generator, "meta" if options.meta else "cpu")
        if name in named:
            raise UsageError(f"two inputs named {name}")
        named[name] = tensor
    signature = inspect.signature(unwrapped(model, []).forward)
    if not named:
        raise UsageError(f'no inputs: give --input "name=f32[...]" for forward{signature}')
    return arguments_by_name(signature, named)


def _read_inputs(file: Path) -> dict:
    from safetensors.torch import load_file

    from ..errors import UsageError

    try:
        return load_file(file)
    except Exception as error:
        raise UsageError(f"cannot read the inputs {file}: {error}") from error


# ---- the result -----------------------------------------------------------------------------------------------


def _report_timings(options, timings: list) -> None:
    if options.json:
        print(json.dumps({"status": "timed", "timings": [vars(timing) for timing in timings]}))
        return
    for t in timings:
        print(
            f"PyTorch: {t.median_ms:.3f} ms median, {t.best_ms:.3f} best of {t.calls}, threads: {t.threads}"
        )


def _report(options, overrides, seconds: float) -> None:
    if options.json:
        results = [_facts(name, files, recorder) for name, files, recorder in overrides.saved]
        print(json.dumps({"status": "ok", "seconds": round(seconds, 2), "recordings": results}))
    elif not options.quiet:
        for name, files, recorder in overrides.saved:
            print(_summary(name, files, recorder, seconds))


def _facts(name: str, files, recorder) -> dict:
    manifest = recorder.manifest
    return {
        "name": name,
        "manifest": str(files.manifest),
        "trace": str(files.trace),
        "second_trace": str(files.second_trace) if files.second_trace else None,
        "perturbed_traces": [str(path) for path in files.perturbed_traces],
        "weights": str(files.weights) if files.weights else None,
        "sizes": files.sizes,
        "nodes": len(manifest["nodes"]),
        "soundness": manifest["soundness"]["status"],
        "symbols": manifest["symbols"],
        "fixed_dims": manifest["fixed_dims"],
        "notes": files.notes,
        "gaps": [vars(gap) for gap in files.gaps],
    }


def _summary(name: str, files, recorder, seconds: float) -> str:
    manifest = recorder.manifest
    checks = len(manifest["soundness"]["checks"])
    lines = [
        f"{name} · {len(manifest['nodes'])} nodes · {len(manifest['module_calls'])} module calls · "
        f"{manifest['soundness']['status']} ({checks} comparisons) · {seconds:.1f} s"
    ]
    for symbol in manifest["symbols"]:
        bound = symbol["bound_by"]
        where = f"axis {bound['axis']} of {bound['input']}" if bound else "decided by data"
        most = symbol["max"] if symbol["max"] is not None else "any size"
        lines.append(f"  {symbol['name']:<6} {where}: {symbol['min']} to {most}")
    for fixed in manifest["fixed_dims"]:
        place = _place_text(manifest, fixed)
        lines.append(
            f"  fixed  axis {fixed['axis']} of {fixed['input']} at {fixed['size']}: {fixed['reason']}{place}"
        )
    lines += [f"  note   {note}" for note in files.notes]
    lines += [f"  gap    {gap}" for gap in files.gaps]
    for path in files:
        lines.append(f"  wrote  {path}  {_size_text(files.sizes[path.name])}")
    return "\n".join(lines)


def _place_text(manifest: dict, fixed: dict) -> str:
    if fixed["file"] is None:
        return ""
    return f" ({manifest['files_table'][fixed['file']]['path']}:{fixed['line']})"


def _size_text(size: int) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _with_fixed_hashing() -> None:
    """Starts Python anew with a fixed hash seed: whatever a model does with sets is then the same each time."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})


if __name__ == "__main__":
    if not {"-h", "--help"} & set(sys.argv[1:]):
        _with_fixed_hashing()
    sys.exit(main())
