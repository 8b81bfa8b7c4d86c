#include "verify/diagnosing/repro.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "ir/text.h"
#include "verify/diagnosing/torch_source.h"
#include "verify/judging/trials.h"

namespace pycandle {
namespace {

// Parameters are inputs like any other there: the folder holds all that is needed.
Program self_contained(Program p) {
  for (Parameter& q : p.parameters) {
    if (q.value != kNoValue) p.inputs.push_back({q.name, q.value, {}, true});
  }
  p.parameters.clear();
  return p;
}

constexpr std::string_view kScript = R"py("""{title}

Runs the op in PyTorch and compares: python debug_layer.py. With matplotlib it also writes heatmap.png.
"""

import math
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

tensors = load_file(Path(__file__).with_name("repro.safetensors"))
inputs = {name.removeprefix("input:"): t for name, t in tensors.items() if name.startswith("input:")}
expected, got = tensors["expected"], tensors["got"]


{helpers}

def op(inputs):
{body}

def show(name, a, b):
    a, b = a.to(torch.float64).flatten(), b.to(torch.float64).flatten()
    d = (a - b).abs()
    cosine = F.cosine_similarity(a, b, dim=0).item() if a.numel() else 1.0
    print(f"{name:24} max abs {d.max().item():.3e}  rms {d.square().mean().sqrt().item():.3e}  cosine {cosine:.9f}")


def plane(t):
    t = t.to(torch.float64)
    return t.reshape(-1, t.shape[-1]) if t.dim() > 1 else t.reshape(1, -1)


# The colours of `pycandle report`: violet is the smallest difference, yellow the largest, black none, blue a missing number.
STOPS = [(59, 15, 112), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)]


def colour(share):
    if share is None:
        return (24, 24, 27)
    if share > 1:
        return (0, 190, 255)
    at = share * (len(STOPS) - 1)
    i = min(int(at), len(STOPS) - 2)
    return tuple(round(a + (b - a) * (at - i)) for a, b in zip(STOPS[i], STOPS[i + 1]))


def shares(difference, height, width):
    """Cells of the largest difference: None is none, 1 the largest, 0 a 2^25th of it and below, 2 a missing number."""
    rows = plane(difference.abs())
    cells = F.adaptive_max_pool2d(rows.nan_to_num(nan=torch.inf)[None], (min(height, rows.shape[0]), min(width, rows.shape[1])))[0]
    finite = cells[cells.isfinite()]
    top = finite.max().item() if finite.numel() else 0.0
    return [[None if v == 0 else 2 if v == math.inf else max(0.0, 1 + math.log2(v / top) / 25) for v in row] for row in cells.tolist()]


def in_terminal(difference):
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    rows = shares(difference, 16, 64)
    print("differences (the last axis across)")
    for i in range(0, len(rows), 2 if coloured else 1):
        if not coloured:
            print("  |" + "".join(" " if v is None else "!" if v > 1 else ".:-=+*#%@"[min(8, int(9 * v))] for v in rows[i]) + "|")
            continue
        below = rows[i + 1] if i + 1 < len(rows) else [None] * len(rows[i])
        rgb = "{};{};{}".format
        print("  " + "".join(f"\033[38;2;{rgb(*colour(a))};48;2;{rgb(*colour(b))}m▀" for a, b in zip(rows[i], below)) + "\033[0m")


def picture(difference, file):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    heat = LinearSegmentedColormap.from_list("pycandle", [tuple(v / 255 for v in stop) for stop in STOPS])
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    for axis, (name, t) in zip(axes, [("expected", expected), ("got", got)]):
        figure.colorbar(axis.imshow(plane(t), aspect="auto", interpolation="nearest", cmap=heat), ax=axis)
        axis.set_title(name)
    rows = shares(difference, 256, 256)
    axes[2].imshow([[colour(v) for v in row] for row in rows], aspect="auto", interpolation="nearest")
    axes[2].set_title("difference, on a log scale")
    figure.savefig(file)
    print(file.name)


if __name__ == "__main__":
    print("{title}")
    show("got, expected", got, expected)
    ours = op(inputs)
    if ours is not None:
        show("torch now, expected", ours, expected)
        show("torch now, got", ours, got)
    difference = got.to(torch.float64) - expected.to(torch.float64)
    in_terminal(difference)
    try:
        picture(difference, Path(__file__).with_name("heatmap.png"))
    except ImportError:
        print("difference.png shows it finer; with matplotlib this script writes heatmap.png")
)py";

std::string filled(std::string_view form, const std::map<std::string, std::string>& words) {
  std::string text(form);
  for (const auto& [name, value] : words) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace

std::string reproduction_name(std::string tap) {
  for (char& c : tap) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '@' || c == '_' || c == '-';
    if (!is_plain) c = '-';
  }
  return tap.empty() || tap[0] == '@' || tap[0] == '.' ? "root" + tap : tap;
}

std::filesystem::path write_reproduction(const std::filesystem::path& parent, const LayerResult& layer, const Reproduction& r,
                                         const std::string& backend, const PipelineOptions& pipeline) {
  const std::filesystem::path folder = parent / reproduction_name(layer.tap.text());
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(ErrorCode::usage, "the folder of the wrong layer cannot be made")
        .found(fmt::format("{}: {}", folder.string(), failure.message()));
  }
  const Program p = self_contained(r.program);
  std::map<std::string, Array> tensors{{"expected", r.expected}, {"got", r.got}};
  for (size_t i = 0; i < r.inputs.size(); ++i) tensors["input:" + r.program.inputs[i].name] = r.inputs[i];
  for (const Parameter& q : r.program.parameters) {
    if (q.value != kNoValue) tensors["input:" + q.name] = r.parameters.get(q);
  }
  const std::string op = layer.diagnosis ? layer.diagnosis->op : layer.op;
  const std::string cause = layer.diagnosis ? layer.diagnosis->cause : "";
  write_safetensors(folder / "repro.safetensors", tensors,
                    {{"tap", layer.tap.text()},
                     {"op", op},
                     {"backend", backend},
                     {"threads", std::to_string(pipeline.threads)},
                     {"overrides", Json(pipeline.overrides).dump()},
                     {"judged", to_string(layer.judged)},
                     {"sizes", Json(r.sizes).dump()}});
  constexpr int64_t kMost = 256;
  const DifferencePicture picture = picture_of_difference(r.got, r.expected, {kMost, kMost});
  if (!picture.empty()) write_text(folder / "difference.png", difference_png(picture));
  write_text(folder / "op.ptir", print(p, {.origins = false}));
  const TorchSource source = torch_source(p, r.sizes);
  const std::string nothing = fmt::format(
      "    print(\"not run in PyTorch: {} has no short spelling there, see op.ptir\")\n    return None\n", source.unspelled);
  const std::string title = fmt::format("{}: {} on {}", layer.tap.text(), op, backend);
  write_text(folder / "debug_layer.py", filled(kScript, {{"{title}", title},
                                                         {"{helpers}", std::string(torch_helpers())},
                                                         {"{body}", (source.unspelled.empty() ? source.text : nothing) + "\n"}}));
  write_text(folder / "README.md",
             fmt::format("{} is wrong: {}\n{}{}\nNext: pycandle replay {} --backend {}, or python debug_layer.py here.\n",
                         layer.tap.text(), layer.why, layer.place.empty() ? "" : layer.place + "  ", cause.empty() ? op : cause,
                         folder.string(), backend));
  return folder;
}

Replay replay(const std::filesystem::path& folder, const Backend& backend, const OpTable& table, PipelineOptions pipeline,
              PictureSize picture_size) {
  const Safetensors tensors = Safetensors::open(folder / "repro.safetensors");
  const Program p = parse_program(read_text(folder / "op.ptir"), table, (folder / "op.ptir").string());
  const auto fact = [&](const char* name) {
    const auto found = tensors.metadata().find(name);
    return found == tensors.metadata().end() ? std::string() : found->second;
  };
  const auto object = [&](const char* name) {
    return parse_json(fact(name).empty() ? "{}" : fact(name), fmt::format("the {} in repro.safetensors", name));
  };
  Bindings sizes;
  const Json stored = object("sizes"), overrides = object("overrides");
  for (const auto& [name, size] : stored.items()) {
    if (size.is_number_integer()) sizes[name] = size.get<int64_t>();
  }
  for (const auto& [op, choice] : overrides.items()) {
    if (choice.is_string()) pipeline.overrides.emplace(op, choice.get<std::string>());
  }
  if (const std::string threads = fact("threads"); pipeline.threads == 0 && !threads.empty() && threads.size() < 5)
    std::from_chars(threads.data(), threads.data() + threads.size(), pipeline.threads);
  std::vector<Array> inputs;
  for (const Input& input : p.inputs) inputs.push_back(tensors.get("input:" + input.name));
  const Trials trials(table, memory_parameters({}), sizes);

  Replay result{fact("tap"), fact("op"), fact("backend"), {}, {}, {}, {}};
  Evidence e;
  e.golden = tensors.get("expected");
  e.ours = backend.compile(p, table, trials.parameters(), pipeline)->run(trials.request(inputs)).at(0);
  result.then = compare(tensors.get("got"), e.golden);
  result.now = compare(e.ours, e.golden);
  result.picture = picture_of_difference(e.ours, e.golden, picture_size);
  if (!is_inexact(e.golden.dtype())) {
    result.judgement = judge_exactly(e.golden, e.ours);
  } else {
    result.judgement = trials.judge(p, inputs, e);
    if (result.judgement.passed) result.judgement = judge_backend(e);
  }
  return result;
}

}  // namespace pycandle
