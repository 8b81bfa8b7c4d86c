// Where the nodes of an ONNX file stood in the model that was exported: modules, their classes, Python lines.
//
//   /encoder/layer.0/attention/self/query/MatMul        names of torch's older exporter: paths alone
//   pkg.torch.onnx.name_scopes, class_hierarchy,        metadata of the newer one: paths, classes, the stack of Python calls
//     stack_trace
//
// A run of nodes of one module is a call of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/model.h"
#include "ir/graph.h"

namespace pycandle::onnx {

class Structure {
 public:
  Structure(const Model&, Program&);
  // Of a node of the file's own graph: its call, its Python line, and what Python assigns its result to. A node that says nothing
  // stands where the one before it stood.
  void place(const Node&, Origin&);
  // What torch's exporter made of a call of torch that knows more than the operator says: indices that are never negative, a mean
  // that is a pool. The form that reads it ("onnx.pycandle.Gather.1"); empty for every other node.
  static std::string form_of_torch(const Node&);
  // Tensors that exporters renamed (onnx::MatMul_1000) are known by what the module that uses them calls them, too.
  void name_parameters();

 private:
  struct Frame {
    std::string file, source;
    int32_t line = 0;
  };
  struct Module {
    std::string path, class_name, assigned_to;
    int64_t occurrence = 0;  // which call of it: the line that it is called in, or the exporter's number
    int32_t line = 0;        // of its own code
  };
  struct Place {
    std::string root_class, call_of_torch;  // "scaled_dot_product_attention_2"; empty where no such call is known
    std::vector<Module> modules;  // from the outside in, without the root
    std::vector<Frame> frames;
  };
  // Who reads a value: how many modules around the first of them are around all.
  struct Readers {
    const Place* first = nullptr;
    size_t depth = 0;
  };
  struct Open {
    int32_t call = 0;
    int64_t occurrence = 0;
    int32_t line = 0;
  };

  std::optional<Place> place_of(const Node&) const;
  static std::optional<Place> by_metadata(const Node&);
  std::optional<Place> by_name(const Node&) const;
  void correct_owner(const Node&, Place&) const;
  void find_readers();
  size_t depth_for_all(const Node&, const Place&) const;
  int32_t begin(const Module&, int32_t parent);
  void say_line(const Place&, Origin&);
  void note_parameters(const Node&, const std::string& path);
  bool owns_parameters(const std::string& path) const;
  std::string_view stored_name(std::string_view name) const;

  const Model* model_;
  Program* program_;
  std::set<std::string, std::less<>> scopes_;                  // "/layer1/layer1.0/relu", of all nodes
  std::map<std::string_view, std::string_view> renamed_;       // by Identity nodes
  std::map<const Node*, Place> places_;
  std::map<std::string_view, Readers> readers_;
  std::map<std::string, const Node*, std::less<>> last_of_call_;  // by call of torch: the node that gives its result
  std::set<std::string, std::less<>> at_home_;                 // tensors with names of modules that use them
  std::vector<Open> open_;                                     // the root first
  std::map<std::string, std::vector<Open>, std::less<>> made_;  // calls by path
  std::map<std::string, int32_t, std::less<>> files_;
  std::map<std::string, std::set<std::string>, std::less<>> aliases_;
};

}  // namespace pycandle::onnx
