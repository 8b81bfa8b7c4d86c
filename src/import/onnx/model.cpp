#include "import/onnx/model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "import/onnx/message.h"

namespace pycandle::onnx {
namespace {

// A file that claims more than this is not a model; what is decoded stays a small multiple of the file.
constexpr size_t kMostEntries = 1'000'000;
constexpr int kDeepestGraph = 16;
constexpr size_t kMostDims = 64;

class Decoder {
 public:
  void model(std::string_view bytes, Model& into) {
    bool has_graph = false;
    Message m(bytes, "the model");
    while (m.next()) {
      switch (m.field()) {
        case 1: into.ir_version = m.integer(); break;
        case 2: into.producer = m.bytes(); break;
        case 3: into.producer_version = m.bytes(); break;
        case 7:
          if (has_graph) throw Error(ErrorCode::bad_input, "the model has two graphs");
          has_graph = true;
          into.graph = graph(m.bytes(), 0);
          break;
        case 8: opset(m.bytes(), into.opsets); break;
        case 25: into.functions.push_back(function(m.bytes())); break;
        default: m.skip();
      }
    }
    if (!has_graph) throw Error(ErrorCode::bad_input, "there is no graph in it");
    if (into.opsets.empty()) throw Error(ErrorCode::bad_input, "it does not say which operator sets it uses");
  }

  static Tensor tensor(std::string_view bytes) {
    Tensor t;
    t.message = bytes;
    Message m(bytes, "a tensor");
    while (m.next()) {
      switch (m.field()) {
        case 1: m.integers(t.dims); break;
        case 2: t.type = static_cast<int32_t>(m.integer()); break;
        case 3: throw Error(ErrorCode::bad_input, "a tensor in segments is not read");
        case 8: t.name = m.bytes(); break;
        case 9: t.raw = m.bytes(); break;
        case 13: t.external.insert(entry(m.bytes())); break;
        case 14: t.is_external = m.integer() == 1; break;
        default: m.skip();
      }
    }
    if (t.dims.size() > kMostDims)
      throw Error(ErrorCode::bad_input, fmt::format("tensor '{}' has {} dims", t.name, t.dims.size()));
    return t;
  }

 private:
  // Every entry of a list costs memory.
  void count() {
    if (++entries_ > kMostEntries)
      throw Error(ErrorCode::bad_input, fmt::format("it has more than {} nodes and values", kMostEntries));
  }

  static std::pair<std::string_view, std::string_view> entry(std::string_view bytes) {
    std::pair<std::string_view, std::string_view> pair;
    Message m(bytes, "an entry");
    while (m.next()) {
      switch (m.field()) {
        case 1: pair.first = m.bytes(); break;
        case 2: pair.second = m.bytes(); break;
        default: m.skip();
      }
    }
    return pair;
  }

  static void opset(std::string_view bytes, Opsets& into) {
    std::string_view domain;
    int64_t version = 0;
    Message m(bytes, "an operator set");
    while (m.next()) {
      switch (m.field()) {
        case 1: domain = m.bytes(); break;
        case 2: version = m.integer(); break;
        default: m.skip();
      }
    }
    if (domain == "ai.onnx") domain = {};
    const auto [known, is_new] = into.emplace(domain, version);
    if (!is_new && known->second != version)  // skl2onnx names a set twice
      throw Error(ErrorCode::bad_input, fmt::format("the operator set '{}' is there in two versions", domain));
  }

  static SparseTensor sparse_tensor(std::string_view bytes) {
    SparseTensor t;
    Message m(bytes, "a sparse tensor");
    while (m.next()) {
      switch (m.field()) {
        case 1: t.values = tensor(m.bytes()); break;
        case 2: t.indices = tensor(m.bytes()); break;
        case 3: m.integers(t.dims); break;
        default: m.skip();
      }
    }
    if (t.dims.size() > kMostDims) throw Error(ErrorCode::bad_input, "a sparse tensor has too many dims");
    return t;
  }

  Function function(std::string_view bytes) {
    count();
    Function f;
    const auto named = [&](std::string_view name) {
      count();
      ValueInfo info;
      info.name = name;
      return info;
    };
    Message m(bytes, "a function");
    while (m.next()) {
      switch (m.field()) {
        case 1: f.name = m.bytes(); break;
        case 4: f.body.inputs.push_back(named(m.bytes())); break;
        case 5: f.body.outputs.push_back(named(m.bytes())); break;
        case 6: f.attributes.push_back(m.bytes()); break;
        case 7: f.body.nodes.push_back(node(m.bytes(), 0)); break;
        case 9: opset(m.bytes(), f.opsets); break;
        case 10: f.domain = m.bytes(); break;
        case 11: f.defaults.push_back(attribute(m.bytes(), 0)); break;
        case 13: f.overload = m.bytes(); break;
        default: m.skip();
      }
    }
    return f;
  }

  Graph graph(std::string_view bytes, int depth) {
    if (depth > kDeepestGraph)
      throw Error(ErrorCode::bad_input, "its graphs are nested too deep")
          .expected(fmt::format("at most {} levels", kDeepestGraph));
    Graph g;
    Message m(bytes, "a graph");
    while (m.next()) {
      switch (m.field()) {
        case 1: g.nodes.push_back(node(m.bytes(), depth)); break;
        case 2: g.name = m.bytes(); break;
        case 5:
          count();
          g.initializers.push_back(tensor(m.bytes()));
          break;
        case 11: g.inputs.push_back(value_info(m.bytes())); break;
        case 12: g.outputs.push_back(value_info(m.bytes())); break;
        case 13: g.values.push_back(value_info(m.bytes())); break;
        case 15:
          count();
          g.sparse.push_back(std::make_shared<const SparseTensor>(sparse_tensor(m.bytes())));
          break;
        default: m.skip();
      }
    }
    return g;
  }

  Node node(std::string_view bytes, int depth) {
    count();
    Node n;
    Message m(bytes, "a node");
    while (m.next()) {
      switch (m.field()) {
        case 1:
          count();
          n.inputs.push_back(m.bytes());
          break;
        case 2:
          count();
          n.outputs.push_back(m.bytes());
          break;
        case 3: n.name = m.bytes(); break;
        case 4: n.op = m.bytes(); break;
        case 5: n.attributes.push_back(attribute(m.bytes(), depth)); break;
        case 7: n.domain = m.bytes(); break;
        case 8: n.overload = m.bytes(); break;
        case 9: n.metadata.insert(entry(m.bytes())); break;
        default: m.skip();
      }
    }
    if (n.op.empty()) throw Error(ErrorCode::bad_input, fmt::format("node '{}' does not say what it computes", n.name));
    return n;
  }

  Attribute attribute(std::string_view bytes, int depth);

  ValueInfo value_info(std::string_view bytes) {
    count();
    ValueInfo info;
    Message m(bytes, "a value");
    while (m.next()) {
      switch (m.field()) {
        case 1: info.name = m.bytes(); break;
        case 2: type(m.bytes(), info); break;
        default: m.skip();
      }
    }
    return info;
  }

  static void type(std::string_view bytes, ValueInfo& info) {
    Message m(bytes, "a type");
    while (m.next()) {
      switch (m.field()) {
        case 1: tensor_type(m.bytes(), info); break;
        case 4:
          info.kind = "a sequence";
          m.skip();
          break;
        case 5:
          info.kind = "a map";
          m.skip();
          break;
        case 7:
          info.kind = "an opaque value";
          m.skip();
          break;
        case 8:
          info.kind = "a sparse tensor";
          m.skip();
          break;
        case 9:
          info.kind = "an optional value";
          m.skip();
          break;
        default: m.skip();
      }
    }
  }

  static void tensor_type(std::string_view bytes, ValueInfo& info) {
    Message m(bytes, "a tensor type");
    while (m.next()) {
      switch (m.field()) {
        case 1: info.type = static_cast<int32_t>(m.integer()); break;
        case 2: {
          info.dims.emplace();
          Message shape(m.bytes(), "a shape");
          while (shape.next()) {
            if (shape.field() == 1)
              info.dims->push_back(dim(shape.bytes()));
            else
              shape.skip();
          }
          if (info.dims->size() > kMostDims)
            throw Error(ErrorCode::bad_input, fmt::format("value '{}' has {} dims", info.name, info.dims->size()));
          break;
        }
        default: m.skip();
      }
    }
  }

  static ValueInfo::Dim dim(std::string_view bytes) {
    ValueInfo::Dim d;
    Message m(bytes, "a dim");
    while (m.next()) {
      switch (m.field()) {
        case 1: d.number = m.integer(); break;
        case 2: d.symbol = m.bytes(); break;
        default: m.skip();
      }
    }
    return d;
  }

  size_t entries_ = 0;
};

Attribute Decoder::attribute(std::string_view bytes, int depth) {
  enum Type { undefined, number, integer, text, tensor_value, graph_value, numbers, integers, texts };
  Attribute a;
  float f = 0;
  int64_t i = 0, type = undefined;
  std::string_view s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  Message m(bytes, "an attribute");
  while (m.next()) {
    switch (m.field()) {
      case 1: a.name = m.bytes(); break;
      case 2: f = m.number(); break;
      case 3: i = m.integer(); break;
      case 4: s = m.bytes(); break;
      case 5: a.value = tensor(m.bytes()); break;
      case 6: a.value = std::make_shared<const Graph>(graph(m.bytes(), depth + 1)); break;
      case 7: m.floats(floats); break;
      case 8: m.integers(ints); break;
      case 9: strings.push_back(m.bytes()); break;
      case 20: type = m.integer(); break;
      case 21: a.reference = m.bytes(); break;
      case 22: a.sparse = std::make_shared<const SparseTensor>(sparse_tensor(m.bytes())); break;
      default: m.skip();
    }
  }
  switch (type) {
    case number: a.value = f; break;
    case integer: a.value = i; break;
    case text: a.value = s; break;
    case numbers: a.value = std::move(floats); break;
    case integers: a.value = std::move(ints); break;
    case texts: a.value = std::move(strings); break;
    case tensor_value:
      if (!std::holds_alternative<Tensor>(a.value))
        throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' has no tensor", a.name));
      break;
    case graph_value:
      if (!std::holds_alternative<std::shared_ptr<const Graph>>(a.value))
        throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' has no graph", a.name));
      break;
    default: a.value = std::monostate{};  // sparse, a reference, or of a kind that is not read
  }
  return a;
}

}  // namespace

namespace {

void collect(const Graph& g, Model& into) {
  std::map<std::string_view, Stored>& here = into.stored[&g];
  const auto add = [&](std::string_view name, Stored what) {
    const auto [place, is_new] = here.emplace(name, std::move(what));
    if (!is_new) throw Error(ErrorCode::bad_input, fmt::format("initializer '{}' is there twice", name));
    Stored& stored = place->second;
    stored.key = std::string(name);
    for (size_t number = into.stored.size(); !into.by_key.emplace(stored.key, &stored).second; ++number)
      stored.key = fmt::format("{}#{}", name, number);
  };
  for (const Tensor& t : g.initializers) add(t.name, {&t, nullptr, nullptr, &g, t.name, {}});
  for (const auto& sparse : g.sparse) add(sparse->values.name, {nullptr, nullptr, sparse.get(), &g, sparse->values.name, {}});
  for (const Node& n : g.nodes) {
    const bool is_constant = n.op == "Constant" && (n.domain.empty() || n.domain == "ai.onnx") && n.outputs.size() == 1;
    const bool refers = !n.attributes.empty() && !n.attributes[0].reference.empty();
    if (is_constant && !refers) add(n.outputs[0], {nullptr, &n, nullptr, &g, n.outputs[0], {}});
    for (const Attribute& a : n.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&a.value)) collect(**inner, into);
  }
}

}  // namespace

bool is_onnx_file(const std::filesystem::path& path) {
  std::error_code failed;
  return path.extension() == ".onnx" && !std::filesystem::is_directory(path, failed);
}

Array Model::value(const Stored& found) const {
  return found.tensor != nullptr   ? read(*this, *found.tensor)
         : found.sparse != nullptr ? dense(*this, *found.sparse)
                                   : constant_value(*this, *found.node);
}

std::optional<Array> Model::value(std::string_view key) const {
  const auto found = by_key.find(key);
  return found == by_key.end() ? std::nullopt : std::optional(value(*found->second));
}

const Function* Model::function(std::string_view domain, std::string_view name, std::string_view overload) const {
  for (const Function& f : functions)
    if (f.domain == domain && f.name == name && f.overload == overload) return &f;
  return nullptr;
}

std::shared_ptr<Model> parse(std::string_view bytes, std::shared_ptr<const void> owner, const std::filesystem::path& file) {
  auto model = std::make_shared<Model>();
  model->file = file;
  model->owner = std::move(owner);
  try {
    Decoder().model(bytes, *model);
    collect(model->graph, *model);
    for (const Function& f : model->functions) collect(f.body, *model);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}", file.string(), error.message()))
        .expected(error.expected())
        .found(error.found());
  } catch (const protozero::exception& broken) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not an ONNX file, or is truncated", file.string()))
        .expected("a protobuf message of onnx.ModelProto")
        .found(broken.what())
        .hint("copy it or export it again");
  }
  return model;
}

std::shared_ptr<const Model> open(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  auto model = parse({reinterpret_cast<const char*>(file->data()), file->size()}, file, path);
  model->stamp = file->stamp();
  return model;
}

}  // namespace pycandle::onnx
