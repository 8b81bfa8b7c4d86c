#include "emit/rust/project.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/file.h"
#include "emit/rust/text.h"

namespace pycandle::emit::rust {
namespace {

constexpr const char* kTest = R"text(//! @MODEL@ against what PyTorch computed, layer by layer. Made by `pycandle codegen`.

use candle_core::{DType, Device, Result@TENSOR@};
use @CRATE@::@NAMES@;
use pycandle::PyChecker;

/// PYCANDLE_TRACE names another folder with the recording.
fn folder() -> String {
    std::env::var("PYCANDLE_TRACE").unwrap_or_else(|_| @FOLDER@.into())
}

fn checker() -> Result<PyChecker> {
    let checker = PyChecker::collecting(@RECORDING@, folder(), &Device::Cpu)?@DECODE_STEP@;
    Ok(checker.keep_failures_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target/failures")))
}

#[test]
fn agrees_layer_by_layer() -> Result<()> {
    let checker = checker()?;
    let model = @MODEL@::load(checker.weights(@DTYPE@)?, Some(checker.clone()))?;
    let inputs = checker.inputs()?;
    let output = checker.placed(model.forward(@INPUTS@))?;
@OUTPUTS@    let report = checker.report();
    println!("{report}");
    checker.write_result(concat!(env!("CARGO_MANIFEST_DIR"), "/target/result.jsonl"))?;
    assert!(report.passed(), "{report}");
    Ok(())
}
)text";

constexpr const char* kDecodeTest = R"text(
/// Token by token, over a cache: the rows of the whole pass.
#[test]
fn agrees_token_by_token() -> Result<()> {
    let checker = checker()?;
    let model = @MODEL@::load(checker.weights(@DTYPE@)?, None)?;
    let inputs = checker.inputs()?;
    let mut cache = Cache::default();
    let mut steps = Vec::new();
    for i in 0..@TOKENS@ {
        steps.push(model.forward(@STEP_INPUTS@, &mut cache)?);
    }
@STEP_OUTPUTS@    let report = checker.report();
    assert!(report.passed(), "{report}");
    Ok(())
}
)text";

constexpr const char* kBenchmark = R"text(//! How fast @MODEL@ is on the recorded inputs. Made by `pycandle gen-bench`.

use candle_core::{DType, Device};
use criterion::{criterion_group, criterion_main, Criterion};
use @CRATE@::@MODEL@;
use pycandle::PyChecker;

fn inference(criterion: &mut Criterion) {
    let folder = std::env::var("PYCANDLE_TRACE").unwrap_or_else(|_| @FOLDER@.into());
    let recorded = PyChecker::load(@RECORDING@, folder, &Device::Cpu).expect("the recording");
    let weights = recorded.weights(@DTYPE@).expect("the recorded weights");
    let model = @MODEL@::load(weights, None).expect("the model");
    let inputs = recorded.inputs().expect("the recorded inputs");
    criterion.bench_function("@MODEL@/recorded", |bencher| {
        bencher.iter(|| model.forward(@INPUTS@).expect("a run"))
    });
}

criterion_group!(benches, inference);
criterion_main!(benches);
)text";

constexpr const char* kCargo = R"text([package]
name = "@NAME@"
version = "0.1.0"
edition = "2021"

[features]
cuda = ["pycandle/cuda"]
flash-attn = ["pycandle/flash-attn"]
metal = ["pycandle/metal"]

[dependencies]
candle-core = "=0.11.1"
candle-nn = "=0.11.1"
pycandle = { path = @RUNTIME@ }
serde = { version = "1", features = ["derive"] }
@BENCH@
[profile.release]
debug = false
)text";

constexpr const char* kReadme = R"text(# @NAME@

`@MODEL@` in Rust on [Candle](https://github.com/huggingface/candle), written by `pycandle codegen` from the recording `@RECORDING@`.

```sh
cargo test --release     # layer by layer against PyTorch's values; says which layer is wrong first
```

`src/lib.rs` is the model, `tests/parity.rs` compares it. The recording is looked for in `@PLACE@`; `PYCANDLE_TRACE=FOLDER` names
another place. A wrong layer is kept in `target/failures`, with a script that shows where it differs.
)text";

constexpr const char* kNewReadme = R"text(# @NAME@

@MODEL@, from PyTorch to Rust on [Candle](https://github.com/huggingface/candle) with PyCandle.

1. `pycandle init` makes `.pycandle/` with the recording script.
2. Edit `.pycandle/scripts/recorder.py` so that it builds and loads @MODEL@.
3. `pycandle record --script .pycandle/scripts/recorder.py --name @NAME@` writes `pycandle_trace/`.
4. `pycandle codegen --manifest pycandle_trace/@NAME@_manifest.json --model @MODEL@ --out src/lib.rs` writes the model, and its test in `tests/parity.rs`.
5. `cargo test --release` compares every layer with PyTorch's values, and says which is wrong first.
6. `pycandle gen-bench --model @MODEL@ --out benches/inference.rs`, then `cargo bench`.
7. `pycandle dashboard target/result.jsonl` shows what the test found.
)text";

std::string filled(std::string text, const PrintedModel& model, const Crate& crate) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) inputs.push_back(fmt::format("&inputs[{}]", i));
  std::string outputs;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    outputs += fmt::format("    checker.verify_output({}, &output{})?;\n", pycandle::quoted(model.outputs[i]), model.fields[i]);
  }
  std::string step_inputs, step_outputs, tokens = "1";
  for (size_t i = 0; i < model.input_axes.size(); ++i) {
    if (i > 0) step_inputs += ", ";
    step_inputs += fmt::format("&inputs[{}]", i);
    if (model.input_axes[i] >= 0) step_inputs += fmt::format(".narrow({}, i, 1)?", model.input_axes[i]);
    if (model.input_axes[i] >= 0) tokens = fmt::format("inputs[{}].dim({})?", i, model.input_axes[i]);
  }
  for (size_t i = 0; i < model.output_axes.size(); ++i) {
    if (model.output_axes[i] < 0) continue;
    if (model.fields[i].empty()) {
      step_outputs += fmt::format("    checker.verify_output({}, &Tensor::cat(&steps, {})?)?;\n",
                                  pycandle::quoted(model.outputs[i]), model.output_axes[i]);
      continue;
    }
    step_outputs += fmt::format(
        "    let parts: Vec<_> = steps.iter().map(|step| step{}.clone()).collect();\n"
        "    checker.verify_output({}, &Tensor::cat(&parts, {})?)?;\n",
        model.fields[i], pycandle::quoted(model.outputs[i]), model.output_axes[i]);
  }
  if (model.has_cache) {
    inputs.emplace_back(text.find("bencher") == std::string::npos ? "&mut Cache::default()" : "&mut Default::default()");
  }
  const std::string folder = crate.folder.empty() ? "." : crate.folder;
  const bool is_absolute = folder.starts_with('/');
  const std::pair<const char*, std::string> places[] = {
      {"@OUTPUTS@", outputs},
      {"@INPUTS@", joined(inputs)},
      {"@TOKENS@", tokens},
      {"@STEP_INPUTS@", step_inputs},
      {"@STEP_OUTPUTS@", step_outputs},
      {"@DECODE_STEP@", model.has_cache ? ".for_decode_step()" : ""},
      {"@TENSOR@", model.has_cache ? ", Tensor" : ""},
      {"@NAMES@", model.has_cache ? fmt::format("{{Cache, {}}}", model.name) : model.name},
      {"@MODEL@", model.name},
      {"@CRATE@", library_name(crate.name)},
      {"@NAME@", crate.name},
      {"@RECORDING@", std::string_view(text).find("# @NAME@") == 0 ? crate.recording : pycandle::quoted(crate.recording)},
      {"@PLACE@", folder},
      {"@FOLDER@", is_absolute ? pycandle::quoted(folder)
                               : fmt::format("concat!(env!(\"CARGO_MANIFEST_DIR\"), {})", pycandle::quoted("/" + folder))},
      {"@DTYPE@", dtype_literal(model.dtype)},
      {"@RUNTIME@", pycandle::quoted(crate.runtime.generic_string())},
      {"@BENCH@", ""}};
  for (const auto& [place, value] : places) {
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
      text.replace(at, std::string_view(place).size(), value);
  }
  return text;
}

}  // namespace

std::string library_name(const std::string& package) {
  std::string name = package;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string print_test(const PrintedModel& model, const Crate& crate) {
  return formatted(filled(kTest, model, crate) + (model.has_cache ? filled(kDecodeTest, model, crate) : ""));
}
std::string print_benchmark(const PrintedModel& model, const Crate& crate) { return formatted(filled(kBenchmark, model, crate)); }

namespace {

std::vector<CrateFile> files_around(const char* readme, const PrintedModel& model, const Crate& crate) {
  std::vector<CrateFile> files{{"Cargo.toml", filled(kCargo, model, crate)},
                               {"README.md", filled(readme, model, crate)},
                               {".gitignore", "/target/\n/.pycandle/venv/\n__pycache__/\n*.safetensors\n"}};
  const std::filesystem::path lock = crate.runtime / "Cargo.lock";  // the versions that were tested
  std::error_code failure;
  if (std::filesystem::is_regular_file(lock, failure)) files.push_back({"Cargo.lock", read_text(lock)});
  return files;
}

}  // namespace

std::vector<CrateFile> crate_files(const PrintedModel& model, const Crate& crate) { return files_around(kReadme, model, crate); }

std::vector<CrateFile> new_crate_files(const std::string& name, const std::string& model, const std::filesystem::path& runtime) {
  PrintedModel named;
  named.name = model;
  std::vector<CrateFile> files = files_around(kNewReadme, named, {name, name, "pycandle_trace", runtime});
  for (const char* folder : {"src", "tests", "benches"}) files.push_back({std::string(folder) + "/.gitkeep", ""});
  return files;
}

std::string formatted(const std::string& text) {
  std::signal(SIGPIPE, SIG_IGN);  // no rustfmt: it reads nothing
  std::array<int, 2> in{}, out{};
  if (pipe(in.data()) != 0) return text;
  if (pipe(out.data()) != 0) {
    close(in[0]);
    close(in[1]);
    return text;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (const int end : {in[0], in[1], out[0], out[1]}) close(end);
    if (freopen("/dev/null", "w", stderr) == nullptr) _exit(127);
    execlp("rustfmt", "rustfmt", "--edition", "2021", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  if (child < 0) {
    close(in[1]);
    close(out[0]);
    return text;
  }
  // rustfmt reads everything before it writes, so one after the other is fine
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t n = write(in[1], left.data(), left.size());
    if (n <= 0) break;
    left.remove_prefix(static_cast<size_t>(n));
  }
  close(in[1]);
  std::string made;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(out[0], buffer.data(), buffer.size())) > 0;) made.append(buffer.data(), static_cast<size_t>(n));
  close(out[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && left.empty() && !made.empty() ? made : text;
}

}  // namespace pycandle::emit::rust
