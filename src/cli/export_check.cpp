#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/safetensors.h"
#include "cli/bench_agreement.h"
#include "cli/child.h"
#include "cli/export.h"
#include "cli/python_finder.h"
#include "cli/work_folder.h"
#include "ops/core/catalogue.h"
#include "verify/judging/run_judge.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGuess = 1e-3;  // of an output that ONNX Runtime's faster functions move further than rounding does

struct Case {
  std::string sizes;
  Model::Tensors inputs;
};

// The recorded inputs, or random ones where there are no goldens.
Model::Tensors recorded_inputs(const Model& model) {
  Model::Tensors inputs;
  for (const fs::path& path : model.recording().traces()) {
    const Safetensors file = Safetensors::open(path);
    for (const Input& input : model.program().inputs) {
      const std::string key = "input:" + input.name;
      if (file.contains(key)) inputs[input.name] = file.get(key);
    }
    break;
  }
  return inputs.size() == model.program().inputs.size() ? inputs : random_inputs(model.program(), 0);
}

// A complex number is a pair in the file.
Array as_pairs(const Array& a) {
  if (!is_complex(a.dtype())) return a;
  Sizes shape = a.shape();
  shape.push_back(2);
  return {a.dtype() == DType::c128 ? DType::f64 : DType::f32, shape, a.data(), std::make_shared<Array>(a)};
}
Array from_pairs(const Array& pairs, DType expected) {
  if (!is_complex(expected) || is_complex(pairs.dtype()) || pairs.rank() == 0 || pairs.shape().back() != 2) return pairs;
  Sizes shape = pairs.shape();
  shape.pop_back();
  return {expected, shape, pairs.data(), std::make_shared<Array>(pairs)};
}

// One more on every open axis: sizes that were baked in show.
std::optional<Case> other_sizes(const Model& model) {
  Bindings sizes;
  for (const Symbol& symbol : model.program().symbols) {
    if (symbol.axis < 0) continue;
    const int64_t more = symbol.example + 1, size = symbol.range.max ? std::min(more, *symbol.range.max) : more;
    sizes[symbol.name] = size;
  }
  if (sizes.empty()) return std::nullopt;
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, size);
  try {
    return Case{text, random_inputs(model.program(), 1, sizes)};
  } catch (const Error&) {
    return std::nullopt;  // sizes that only fit together in ways that nobody wrote down
  }
}

std::vector<Array> states_of(const Model& model) {
  const Model::Tensors now = model.states();
  std::vector<Array> states;
  for (const State& state : model.program().states) states.push_back(now.at(state.name));
  return states;
}

void judge(const Model& model, const emit::onnx::Interface& interface, const Case& at, const Safetensors& file,
           ExportCheck& check) {
  RunJudge judge(model.program(), catalogue(), model.parameters(), ordered_inputs(model.program(), at.inputs), states_of(model));
  for (size_t i = 0; i < interface.outputs.size(); ++i) {
    CheckedOutput out;
    out.name = interface.outputs[i].first;
    out.sizes = at.sizes;
    const Array value = from_pairs(file.get(fmt::format("{:04}", i)), judge.expected(i).dtype());
    const Judgement j = judge.judge(i, value, "ONNX Runtime");
    const Array& expected = judge.expected(i);
    if (value.shape() == expected.shape()) {
      const std::vector<double> ours = load_double(as_pairs(expected)), theirs = load_double(as_pairs(value));
      double largest = 0, most = 0;
      for (size_t k = 0; k < ours.size(); ++k) {
        const bool are_finite = std::isfinite(ours[k]) && std::isfinite(theirs[k]);
        if (are_finite) largest = std::max(largest, std::abs(ours[k]));
        const bool are_same = ours[k] == theirs[k] || (std::isnan(ours[k]) && std::isnan(theirs[k]));
        if (!are_same) most = std::max(most, are_finite ? std::abs(ours[k] - theirs[k]) : INFINITY);
      }
      out.error = most == 0 ? 0 : most / std::max(largest, 1e-30);
    } else {
      out.error = INFINITY;
    }
    out.within_rounding = j.passed;
    out.passed = j.passed || (is_inexact(expected.dtype()) && out.error <= kGuess);
    if (!out.passed) out.why = j.why;
    check.outputs.push_back(std::move(out));
  }
}

}  // namespace

bool ExportCheck::passed() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const CheckedOutput& o) { return o.passed; });
}

OnnxPython find_onnx_python(const std::string& named) {
  const auto python = find_python(named);
  if (!python) return {"", "no Python was found (--python, PYCANDLE_PYTHON)", 0};
  const auto answer = output_of({python->path, "-m", "pycandle.peers.onnx_file", "--newest-opset"});
  if (!answer) return {"", fmt::format("{} lacks pycandle, onnx or onnxruntime", python->path), 0};
  return {python->path, "", std::stoi(*answer)};
}

ExportCheck check_export(const Model& model, const emit::onnx::Interface& interface, const fs::path& file,
                         const OnnxPython& python) {
  ExportCheck check;
  if (python.path.empty()) {
    check.why_not = python.why_not;
    return check;
  }
  std::vector<Case> cases{{"", recorded_inputs(model)}};
  if (auto other = other_sizes(model)) cases.push_back(std::move(*other));
  const Model::Tensors states = model.states();
  const WorkFolder folder;
  for (const Case& at : cases) {
    std::map<std::string, Array> given;
    for (const auto& [name, in_file] : interface.inputs) {
      const auto found = at.inputs.find(name);
      const Array& value = found != at.inputs.end() ? found->second : states.at(name);
      given[in_file] = value.dtype() == DType::bf16 ? cast(value, DType::f32) : as_pairs(value);  // NumPy has no bf16
    }
    const fs::path inputs = folder.path / "inputs.safetensors", outputs = folder.path / "outputs.safetensors";
    write_safetensors(inputs, given);
    const auto answer = output_of({python.path, "-m", "pycandle.peers.onnx_file", "--model", file.string(), "--inputs",
                                   inputs.string(), "--outputs", outputs.string()});
    if (!answer) throw Error(ErrorCode::internal, "ONNX Runtime could not be asked").found(python.path);
    const Json facts = Json::parse(*answer);
    if (facts.contains("error"))
      throw Error(ErrorCode::verdict, "the file that was written does not run").found(facts.at("error").get<std::string>());
    check.runner = facts.at("runner").get<std::string>();
    judge(model, interface, at, Safetensors::open(outputs), check);
  }
  return check;
}

}  // namespace pycandle::cli
