#include "emit/onnx/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/version.h"

namespace pycandle::emit::onnx {
namespace {

using Writer = protozero::pbf_writer;

// The version of the format that came with an opset.
int ir_version(int opset) {
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 23) return 11;
  return opset == 24 ? 12 : 13;
}

// Where the bytes of large tensors go.
struct External {
  std::unique_ptr<AtomicFile> file;           // null: nowhere
  std::string name;
  uint64_t size = 0;

  void align() {
    static const std::string kZeros(4096, '\0');
    const uint64_t rest = size % kZeros.size();
    if (rest == 0) return;
    file->write(kZeros.data(), kZeros.size() - rest);
    size += kZeros.size() - rest;
  }
};

constexpr size_t kStaysInside = 1024;

void write_entry(Writer& w, int field, const std::string& key, const std::string& value) {
  Writer entry(w, static_cast<protozero::pbf_tag_type>(field));
  entry.add_string(1, key);
  entry.add_string(2, value);
}

void write_tensor(Writer& w, int field, const std::string& name, const Array& array, External* external) {
  Writer tensor(w, static_cast<protozero::pbf_tag_type>(field));
  for (const int64_t size : array.shape()) tensor.add_int64(1, size);
  tensor.add_int32(2, element_type(array.dtype()));
  if (!name.empty()) tensor.add_string(8, name);
  if (external == nullptr || !external->file || array.bytes() < kStaysInside) {
    tensor.add_bytes(9, static_cast<const char*>(array.data()), array.bytes());
    return;
  }
  external->align();
  write_entry(tensor, 13, "location", external->name);
  write_entry(tensor, 13, "offset", std::to_string(external->size));
  write_entry(tensor, 13, "length", std::to_string(array.bytes()));
  tensor.add_int32(14, 1);
  external->file->write(array.data(), array.bytes());
  external->size += array.bytes();
}

void write_value(Writer& w, int field, const OnnxValue& value) {
  Writer info(w, static_cast<protozero::pbf_tag_type>(field));
  info.add_string(1, value.name);
  Writer type(info, 2);
  Writer tensor(type, 1);
  tensor.add_int32(1, element_type(value.type.dtype));
  if (value.type.shape.empty()) tensor.add_string(2, "");  // of no axes, which is not the same as unknown
  Writer shape(tensor, 2);
  for (const Dim size : value.type.shape) {
    Writer dim(shape, 1);
    if (size.is_number())
      dim.add_int64(1, size.number());
    else
      dim.add_string(2, size.text());
  }
}

void write_graph(Writer&, int field, const OnnxGraph&, External*);

void write_attribute(Writer& node, const std::string& name, const OnnxAttribute& value) {
  Writer w(node, 5);
  w.add_string(1, name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    w.add_int64(3, *i);
    w.add_int32(20, 2);
  } else if (const auto* f = std::get_if<double>(&value)) {
    w.add_float(2, static_cast<float>(*f));
    w.add_int32(20, 1);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    w.add_string(4, *s);
    w.add_int32(20, 3);
  } else if (const auto* ints = std::get_if<Ints>(&value)) {
    for (const int64_t each : *ints) w.add_int64(8, each);
    w.add_int32(20, 7);
  } else if (const auto* floats = std::get_if<Numbers>(&value)) {
    for (const double each : *floats) w.add_float(7, static_cast<float>(each));
    w.add_int32(20, 6);
  } else if (const auto* texts = std::get_if<Names>(&value)) {
    for (const std::string& text : *texts) w.add_string(9, text);
    w.add_int32(20, 8);
  } else if (const auto* tensor = std::get_if<Array>(&value)) {
    write_tensor(w, 5, "", *tensor, nullptr);
    w.add_int32(20, 4);
  } else {
    write_graph(w, 6, *std::get<std::shared_ptr<OnnxGraph>>(value), nullptr);
    w.add_int32(20, 5);
  }
}

void write_node(Writer& graph, const OnnxNode& node) {
  Writer w(graph, 1);
  for (const std::string& input : node.inputs) w.add_string(1, input);
  for (const std::string& output : node.outputs) w.add_string(2, output);
  w.add_string(3, node.name);
  w.add_string(4, node.op);
  for (const auto& [name, value] : node.attributes) write_attribute(w, name, value);
  for (const auto& [key, value] : node.metadata) write_entry(w, 9, key, value);
}

void write_graph(Writer& parent, int field, const OnnxGraph& graph, External* external) {
  Writer w(parent, static_cast<protozero::pbf_tag_type>(field));
  for (const OnnxNode& node : graph.nodes) write_node(w, node);
  w.add_string(2, graph.name);
  for (const auto& [name, array] : graph.initializers) write_tensor(w, 5, name, array, external);
  for (const OnnxValue& value : graph.inputs) write_value(w, 11, value);
  for (const OnnxValue& value : graph.outputs) write_value(w, 12, value);
}

}  // namespace

int element_type(DType d) {
  switch (d) {
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i8: return 3;
    case DType::i16: return 5;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::boolean: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::c64: return 14;
    case DType::c128: return 15;
    case DType::bf16: return 16;
  }
  internal_error("a dtype that ONNX has no number for");
}

Written write(const OnnxModel& model, const std::filesystem::path& path, uint64_t most_inside) {
  uint64_t bytes = 0;
  for (const auto& [name, array] : model.graph.initializers) bytes += array.bytes();
  External external;
  Written written;
  if (bytes > most_inside) {
    written.data = path;
    written.data += ".data";
    external.name = written.data.filename().string();
    external.file = std::make_unique<AtomicFile>(written.data);
  }
  std::string text;
  {
    Writer w(text);
    w.add_int64(1, ir_version(model.opset));
    w.add_string(2, "pycandle");
    w.add_string(3, version());
    write_graph(w, 7, model.graph, &external);
    Writer opset(w, 8);
    opset.add_string(1, "");
    opset.add_int64(2, model.opset);
  }
  if (external.file) external.file->commit();
  AtomicFile file(path);
  file.write(text);
  file.commit();
  written.bytes = text.size() + external.size;
  return written;
}

}  // namespace pycandle::emit::onnx
