#include "runtime/bundle.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/version.h"
#include "base/weight_bytes.h"
#include "import/field.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"
#include "passes/passes.h"

namespace pycandle {
namespace {

CacheState read_state(const Field& entry) {
  CacheState state;
  const std::string kind = entry["kind"].string();
  if (kind != "rows" && kind != "once") entry["kind"].fail("there is no such kind of state", "rows or once", kind);
  state.kind = kind == "rows" ? CacheState::Kind::rows : CacheState::Kind::once;
  state.name = entry["name"].string();
  state.axis = entry["axis"].integer(-1, 64);
  state.window = entry["window"].integer(0, int64_t{1} << 40);
  return state;
}

Program read_program(const Bundle& bundle, const char* section, const OpTable& table) {
  Program p = parse_program(bundle.archive.section(section).text(), table, bundle.archive.where(section));
  verify(p, "bundle");
  return p;
}

bool has_symbol(const Program& p, const std::string& name) {
  return std::any_of(p.symbols.begin(), p.symbols.end(), [&](const Symbol& s) { return s.name == name; });
}

// What a Decoder relies on, which the two programs alone do not promise.
void check_step(const DecodeStep& d, const Field& facts) {
  if (d.step.states.size() != d.states.size()) facts["states"].fail("the decode step has other states");
  size_t once = 0;
  for (size_t i = 0; i < d.states.size(); ++i) {
    const CacheState& state = d.states[i];
    if (d.step.states[i].name != state.name)
      facts["states"].fail("the decode step has other states", d.step.states[i].name, state.name);
    const Shape& shape = d.step.graph.type(d.step.states[i].value).shape;
    if (state.kind == CacheState::Kind::once) {
      if (once >= d.setup.outputs.size() || d.setup.outputs[once].name != state.name ||
          d.setup.graph.type(d.setup.outputs[once].value).dtype != d.step.graph.type(d.step.states[i].value).dtype)
        facts["states"].fail("a state is not what the setup of the decode step gives", {}, state.name);
      ++once;
    } else if (state.axis < 1 || state.axis >= static_cast<int64_t>(shape.size()) ||
               shape[state.axis] != Dim::symbol(state.window > 0 ? kWindowRows : kCapacity) || shape[0] != Dim::symbol(d.batch)) {
      facts["states"].fail("a state has no rows along its axis", {}, state.name);
    }
  }
  const bool has_tokens = !d.step.inputs.empty() && d.step.graph.type(d.step.inputs[0].value).rank() >= 2;
  const auto has_input = [&](const char* name) {
    return std::any_of(d.step.inputs.begin(), d.step.inputs.end(), [&](const Input& i) { return i.name == name; });
  };
  if (!has_tokens || !has_input(kLengths) || has_input(kDropped) != (d.widest_window() > 0) || !has_symbol(d.step, d.batch) ||
      !has_symbol(d.step, d.tokens))
    facts.fail("the decode step has no tokens, lengths, batch or length");
}

Json facts_of(const DecodeStep& d) {
  Json states = Json::array();
  for (const CacheState& s : d.states)
    states.push_back(
        {{"kind", s.kind == CacheState::Kind::rows ? "rows" : "once"}, {"name", s.name}, {"axis", s.axis}, {"window", s.window}});
  return {{"batch", d.batch},
          {"tokens", d.tokens},
          {"longest", d.longest ? Json(*d.longest) : Json()},
          {"states", states},
          {"dropped", d.dropped}};
}

// Its parameters are those of the bundle.
std::string bundled_text(Program p) {
  for (Parameter& q : p.parameters) {
    q.file = q.value == kNoValue ? "" : kBundleWeights;
    q.key = q.value == kNoValue ? "" : q.name;
  }
  for (State& s : p.states) {
    if (!s.file.empty()) s.file = kBundleWeights, s.key = s.name;
  }
  return print(p);
}

class Writer {
 public:
  Writer(const std::filesystem::path& path, ArchiveWriter::Form form, const BundleParts& parts, const OpTable& table)
      : archive_(path, form), parts_(parts), narrow_(narrow_parameters(parts.recording.program, table, parts.weights)) {}

  void run() {
    const Program& p = parts_.recording.program;
    add(kBundleProgram, bundled_text(p));
    if (parts_.step) {
      add(kBundleSetup, bundled_text(parts_.step->setup));
      add(kBundleStep, bundled_text(parts_.step->step));
    }
    if (!parts_.tokenizer.empty()) {
      add(kBundleTokenizer, parts_.tokenizer);
      add(kBundleCompiledTokenizer, Tokenizer::compile(parts_.tokenizer));
    }
    if (!parts_.chat.empty()) add(kBundleChat, parts_.chat);
    if (!parts_.generation.empty()) add(kBundleGeneration, parts_.generation);
    add_weights(p);
    add(kBundleTable, table_.dump(1) + "\n");
    archive_.begin(kBundleHead);
    archive_.write(sealed_head(contents().dump()));
    archive_.commit();
  }

 private:
  void add(const char* name, const std::string& text) {
    archive_.begin(name);
    archive_.write(text);
    sections_[name] = {{"bytes", text.size()}, {"hash", hash128(text).text()}};
  }

  void add_weights(const Program& p) {
    archive_.begin(kBundleWeights);
    for (const Parameter& q : p.parameters) {
      if (q.value == kNoValue) continue;
      const auto axis = narrow_.find(q.name);
      add_weight(q.name, parts_.parameters->get(q), axis == narrow_.end() ? WeightFormat::f32 : parts_.weights,
                 axis == narrow_.end() ? 1 : axis->second);
    }
    for (const State& s : p.states)
      add_weight(s.name, parts_.parameters->get_state(s, p.graph.type(s.value)), WeightFormat::f32, 1);
    sections_[kBundleWeights] = {{"bytes", archive_.written()}};
  }

  void add_weight(const std::string& name, const Array& value, WeightFormat format, int64_t axis) {
    archive_.align();
    const size_t offset = archive_.written();
    std::vector<std::byte> narrow;
    const void* bytes = value.data();
    size_t size = value.bytes();
    if (format != WeightFormat::f32) {
      const MatrixPlace place = MatrixPlace::of(value.shape()[0], value.shape()[1], axis);
      size = bytes_in(format, static_cast<uint64_t>(place.outputs), static_cast<uint64_t>(place.inputs));
      narrow.resize(size);
      to_bytes(format, value.as<float>(), place, narrow.data());
      bytes = narrow.data();
    }
    archive_.write(bytes, size);
    table_[name] = {{"id", parameter_id(name).text()},
                    {"dtype", name_of(value.dtype())},
                    {"shape", value.shape()},
                    {"format", name_of(format)},
                    {"axis", axis},
                    {"offset", offset},
                    {"bytes", size},
                    {"hash", hash128(bytes, size).text()}};
    parts_.parameters->release(value);
  }

  Json contents() const {
    const Recording& r = parts_.recording;
    return {{"name", r.program.name},
            {"weights", name_of(parts_.weights)},
            {"capabilities", parts_.capabilities},
            {"sections", sections_},
            {"decode", parts_.step ? facts_of(*parts_.step) : Json()},
            {"recording",
             {{"class", r.model_class},
              {"soundness", r.soundness},
              {"notes", r.notes},
              {"version", r.version},
              {"torch", r.torch_version},
              {"input_tree", r.input_tree},
              {"output_tree", r.output_tree}}},
            {"provenance", Json::parse(parts_.provenance)},
            {"verification", Json::parse(parts_.verification)}};
  }

  ArchiveWriter archive_;
  const BundleParts& parts_;
  std::map<std::string, int64_t> narrow_;
  Json sections_ = Json::object(), table_ = Json::object();
};

const Bundle& bundle_of(const Model& model, const char* section, const char* hint) {
  const std::shared_ptr<const Bundle>& bundle = model.recording().bundle;
  if (bundle && bundle->archive.contains(section)) return *bundle;
  throw Error(ErrorCode::usage, fmt::format("{} has no {}", model.program().name, section)).hint(hint);
}

}  // namespace

std::map<std::string, int64_t> narrow_parameters(const Program& p, const OpTable& table, WeightFormat format) {
  if (format == WeightFormat::f32) return {};
  const Program narrowed = narrow_weights(p, table, format);
  const Graph& g = narrowed.graph;
  PerValue<int64_t> axes(g.values.size(), -1);  // -2: read in another way, too
  const auto read = [&](ValueId v, int64_t axis) {
    if (v != kNoValue) axes[v] = axes[v] == -1 || axes[v] == axis ? axis : -2;
  };
  for (const Node& node : g.nodes) {
    const bool is_stored = node.op->name == "stored_as";
    for (const ValueId v : node.operands)
      read(v, is_stored ? Call(*node.op, g, node.operands, node.attributes, node.regions).integer("axis") : -2);
  }
  for (const ValueId v : g.outputs) read(v, -2);
  std::map<std::string, int64_t> found;
  for (const Parameter& q : narrowed.parameters) {
    if (q.value != kNoValue && axes[q.value] >= 0) found[q.name] = axes[q.value];
  }
  return found;
}

void write_bundle(const std::filesystem::path& path, ArchiveWriter::Form form, const BundleParts& parts, const OpTable& table) {
  Writer(path, form, parts, table).run();
}

DecodeStep bundled_step(const Bundle& bundle, const OpTable& table) {
  if (bundle.decode.empty())
    throw Error(ErrorCode::gap, "this bundle has no decode step").hint("pycandle inspect M --decode says why, of the recording");
  const std::string document = bundle.archive.where(kBundleHead);
  const Json json = Json::parse(bundle.decode);
  const Field facts(json, document);
  DecodeStep d;
  d.batch = facts["batch"].string();
  d.tokens = facts["tokens"].string();
  if (const auto longest = facts.find("longest")) d.longest = longest->integer(1);
  facts["states"].each([&](const Field& state) { d.states.push_back(read_state(state)); });
  facts["dropped"].each([&](const Field& why) { d.dropped.push_back(why.string()); });
  d.setup = read_program(bundle, kBundleSetup, table);
  d.step = read_program(bundle, kBundleStep, table);
  check_step(d, facts);
  return d;
}

Decoder open_decoder(const Model& model, const std::string& cache) {
  const LoadOptions& options = model.options();
  const OpTable& table = options.table ? *options.table : catalogue();
  const std::shared_ptr<const Bundle>& bundle = model.recording().bundle;
  DecodeStep step = bundle && cache == "f32" ? bundled_step(*bundle, table)
                                             : derive_decode_step(with_caches(model.program(), table, cache), table);
  return Decoder(std::move(step), table, model.parameters(), options.backend, pipeline_for(model.recording(), options));
}

bool has_tokenizer(const Model& model) {
  const std::shared_ptr<const Bundle>& bundle = model.recording().bundle;
  return bundle && bundle->archive.contains(kBundleTokenizer);
}

Tokenizer bundled_tokenizer(const Model& model) {
  const Bundle& bundle = bundle_of(model, kBundleTokenizer, "make a bundle with --tokenizer tokenizer.json");
  return Tokenizer::from_compiled(bundle.archive.section(kBundleCompiledTokenizer).text());
}

ChatTemplate bundled_chat_template(const Model& model) {
  const Bundle& bundle = bundle_of(model, kBundleChat, "make a bundle with --tokenizer-config tokenizer_config.json");
  return ChatTemplate::from_config_text(bundle.archive.section(kBundleChat).text());
}

std::optional<std::string> bundled_generation_config(const Model& model) {
  const std::shared_ptr<const Bundle>& bundle = model.recording().bundle;
  if (!bundle || !bundle->archive.contains(kBundleGeneration)) return std::nullopt;
  return std::string(bundle->archive.section(kBundleGeneration).text());
}

std::vector<std::string> capabilities_of(const Model& model) {
  if (model.recording().bundle) return model.recording().bundle->capabilities;
  return {kForward, kTrace};
}

}  // namespace pycandle
