// Manifests: what is imported, what is refused, and how clearly.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "growth.h"
#include "import/importer.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

// y = (x + w) * 0.5, on x: f32[s0, 4].
Json small_manifest() {
  return Json::parse(R"json({
    "format": "pycandle.manifest", "version": "1.0.0", "name": "small",
    "producer": {"pycandle": "0.1.0", "torch": "2.11.0", "python": "3.11.7"},
    "model": {"class": "m.Small", "seed": 0, "perturbed": false},
    "soundness": {"status": "verified", "checks": []}, "notes": ["a note"],
    "files": {"trace": "small_trace.safetensors", "weights": "small_weights.safetensors"},
    "symbols": [{"name": "s0", "min": 1, "max": null, "example": 2, "bound_by": {"input": "x", "axis": 0}}],
    "fixed_dims": [],
    "inputs": [{"name": "x", "value": 0, "dtype": "f32", "shape": ["s0", 4], "used": true}],
    "outputs": [{"name": "output", "value": 3, "dtype": "f32", "shape": ["s0", 4]}],
    "states": [],
    "parameters": [{"name": "w", "aliases": ["tied"], "kind": "parameter", "persistent": true, "value": 1,
                    "dtype": "f32", "shape": [4], "file": "small_weights.safetensors", "key": "w"}],
    "nodes": [
      {"op": "aten.add.Tensor", "args": [["self", {"v": 0}], ["other", {"v": 1}], ["alpha", 1]],
       "results": [{"value": 2, "dtype": "f32", "shape": ["s0", 4]}], "call": 0, "file": 0, "line": 7, "assigned_to": "h"},
      {"op": "aten.mul.Tensor", "args": [["self", {"v": 2}], ["other", {"float": 0.5}]],
       "results": [{"value": 3, "dtype": "f32", "shape": ["s0", 4]}], "call": 0, "file": 0, "line": 8, "assigned_to": null}],
    "graphs": [],
    "module_calls": [{"path": "", "call": 0, "class": "m.Small", "parent": null, "class_file": 0, "class_line": 3, "forward_line": 6,
                      "attributes": {"size": 4, "eps": 1e-05, "name": "x", "flag": true}, "config": {},
                      "args": [["x", {"v": 0}]], "output": {"v": 3}}],
    "taps": [{"id": "@0/output", "value": 3, "key": "@0/output", "shape": [2, 4]}],
    "files_table": [{"path": "m.py", "lines": {"7": "h = x + self.w", "8": "return h * 0.5"}}]
  })json");
}

Recording import(const Json& manifest) { return import_manifest_text(manifest.dump(), catalogue(), "manifest small"); }

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::internal, "");
}
Error error_of(const Json& manifest) {
  return error_of([&] { import(manifest); });
}

Json& node(Json& manifest, size_t i) { return manifest["nodes"][i]; }

TEST(Import, a_manifest_becomes_a_program_with_its_places_and_names) {
  Recording r = import(small_manifest());
  const Program& p = r.program;
  EXPECT_EQ(p.name, "small");
  ASSERT_EQ(p.inputs.size(), 1u);
  EXPECT_EQ(p.graph.type(p.inputs[0].value).text(), "f32[s0, 4]");
  ASSERT_EQ(p.parameters.size(), 1u);
  EXPECT_EQ(p.parameters[0].aliases, std::vector<std::string>{"tied"});
  EXPECT_EQ(p.outputs[0].name, "output");
  EXPECT_EQ(p.taps[0].value, p.outputs[0].value);
  EXPECT_EQ(p.calls[0].output.value, p.outputs[0].value);
  EXPECT_EQ(r.trace_file, "small_trace.safetensors");
  EXPECT_TRUE(r.second_trace_file.empty());  // version 1.0
  EXPECT_EQ(r.traces().size(), 1u);
  EXPECT_EQ(r.torch_version, "2.11.0");
  EXPECT_EQ(r.notes, std::vector<std::string>{"a note"});
  const Node* add = nullptr;
  for (const Node& n : p.graph.nodes)
    if (n.op->name == "add") add = &n;
  ASSERT_TRUE(add);
  EXPECT_EQ(add->origin.assigned_to, "h");
  EXPECT_EQ(p.file_line(add->origin), "m.py:7");
  EXPECT_EQ(p.source_line(add->origin), "h = x + self.w");
}

TEST(Import, an_imported_program_prints_and_parses_back) {
  Program p = import(small_manifest()).program;
  EXPECT_TRUE(identical(parse_program(print(p), catalogue()), p));
}

TEST(Import, an_unknown_overload_is_a_gap_that_names_lines_counts_and_the_nearest_overload) {
  Json m = small_manifest();
  node(m, 0)["op"] = "aten.add.Tensorr";
  Error e = error_of(m);
  EXPECT_EQ(e.code(), ErrorCode::gap);
  EXPECT_NE(e.text().find("aten.add.Tensorr is not supported"), std::string::npos) << e.text();
  EXPECT_NE(e.text().find("m.py:7"), std::string::npos) << e.text();
  EXPECT_NE(e.text().find("aten.add.Tensor"), std::string::npos) << e.text();
  EXPECT_NE(e.text().find("1 of 2 nodes"), std::string::npos) << e.text();
}

TEST(Import, all_gaps_are_listed_at_once) {
  Json m = small_manifest();
  node(m, 0)["op"] = "custom.first.default";
  node(m, 1)["op"] = "custom.second.default";
  Error e = error_of(m);
  EXPECT_NE(e.text().find("custom.first.default"), std::string::npos);
  EXPECT_NE(e.text().find("custom.second.default"), std::string::npos);
}

TEST(Import, an_argument_that_nothing_consumes_is_an_error_that_names_it) {
  Json m = small_manifest();
  node(m, 1)["args"].push_back(Json::array({"rounding", true}));
  Error e = error_of(m);
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
  EXPECT_NE(e.message().find("'rounding'"), std::string::npos) << e.text();
  EXPECT_EQ(e.op(), "aten.mul.Tensor");
  EXPECT_EQ(e.file_line(), "m.py:8");
}

TEST(Import, a_type_other_than_the_recorded_one_is_an_error_with_both) {
  Json m = small_manifest();
  node(m, 0)["results"][0]["dtype"] = "f64";
  Error e = error_of(m);
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
  EXPECT_EQ(e.expected(), "f64[s0, 4]");
  EXPECT_EQ(e.found(), "f32[s0, 4]");
  EXPECT_EQ(e.source_line(), "h = x + self.w");

  m = small_manifest();
  node(m, 0)["results"][0]["shape"] = Json::array({"s0 + 1", 4});
  EXPECT_EQ(error_of(m).expected(), "f32[s0 + 1, 4]");
}

TEST(Import, sizes_that_algebra_cannot_compare_are_compared_at_samples_and_checked_at_run_time) {
  Json m = small_manifest();
  // max(s0, 1) is s0 within the range of s0.
  node(m, 0)["results"][0]["shape"] = Json::array({"floordiv(s0*s0, s0)", 4});
  Program p = import(m).program;
  EXPECT_EQ(p.graph.type(p.outputs[0].value).text(), "f32[s0, 4]");
}

TEST(Import, a_result_that_nobody_uses_may_be_null) {
  Json m = small_manifest();
  Json maximum = {
      {"op", "aten.max.dim"},
      {"args", Json::array({Json::array({"self", {{"v", 3}}}), Json::array({"dim", 1}), Json::array({"keepdim", false})})},
      {"results", Json::array({{{"value", 4}, {"dtype", "f32"}, {"shape", {"s0"}}}, nullptr})}};
  m["nodes"].push_back(maximum);
  EXPECT_NO_THROW(import(m));
}

TEST(Import, a_branch_is_a_cond_with_two_regions) {
  Json m = small_manifest();
  Json body = Json::parse(R"json({"inputs": [{"value": 0, "dtype": "f32", "shape": ["s0", 4]}],
    "nodes": [{"op": "aten.neg.default", "args": [["self", {"v": 0}]], "results": [{"value": 1, "dtype": "f32", "shape": ["s0", 4]}],
               "call": null, "file": null, "line": null, "assigned_to": null}], "outputs": [1]})json");
  Json other = body;
  other["nodes"][0]["op"] = "aten.abs.default";
  m["graphs"] = Json::array({body, other});
  m["nodes"].push_back(Json::parse(
      R"json({"op": "aten.any.default", "args": [["self", {"v": 3}]], "results": [{"value": 4, "dtype": "bool", "shape": []}]})json"));
  m["nodes"].push_back(Json::parse(
      R"json({"op": "higher_order.cond", "args": [["pred", {"v": 4}], ["true_fn", {"graph": 0}], ["false_fn", {"graph": 1}],
    ["operands", [{"v": 3}]]], "results": [{"value": 5, "dtype": "f32", "shape": ["s0", 4]}]})json"));
  Program p = import(m).program;
  const Node& last = p.graph.nodes.back();
  ASSERT_EQ(last.op->name, "cond");
  EXPECT_EQ(last.regions[0].nodes[0].op->name, "neg");
  EXPECT_EQ(last.regions[1].nodes[0].op->name, "abs");
  EXPECT_TRUE(identical(parse_program(print(p), catalogue()), p));

  m["nodes"].back()["args"][1][1] = {{"graph", 7}};
  EXPECT_EQ(error_of(m).code(), ErrorCode::bad_input);
}

TEST(Import, a_later_major_version_is_refused_with_the_way_out) {
  Json m = small_manifest();
  m["version"] = "2.0.0";
  Error e = error_of(m);
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
  EXPECT_NE(e.hint().find("that version of PyCandle or a later one"), std::string::npos);
  m["version"] = "1.9.3";
  m["something_new"] = 5;  // a later minor version may know more
  EXPECT_NO_THROW(import(m));
}

struct BadManifest {
  const char* name;
  std::function<void(Json&)> spoil;
  const char* says;  // part of the message
};

class BadManifests : public ::testing::TestWithParam<BadManifest> {};

TEST_P(BadManifests, gives_one_clear_error_with_its_place) {
  Json m = small_manifest();
  GetParam().spoil(m);
  Error e = error_of(m);
  EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.text();
  EXPECT_NE(e.text().find(GetParam().says), std::string::npos) << e.text();
}

const BadManifest kBad[] = {
    {"another_format", [](Json& m) { m["format"] = "onnx"; }, "format"},
    {"no_version", [](Json& m) { m.erase("version"); }, "'version' is missing"},
    {"a_version_of_words", [](Json& m) { m["version"] = "one"; }, "version"},
    {"a_list_at_the_top", [](Json& m) { m = Json::array(); }, "not an object"},
    {"no_nodes", [](Json& m) { m.erase("nodes"); }, "'nodes' is missing"},
    {"nodes_as_an_object", [](Json& m) { m["nodes"] = Json::object(); }, "nodes: this is not a list"},
    {"a_node_as_a_number", [](Json& m) { m["nodes"][1] = 3; }, "nodes[1]"},
    {"a_value_used_before_it_is_defined", [](Json& m) { node(m, 0)["args"][0][1]["v"] = 3; }, "nodes[0].args[0][1].v"},
    {"a_value_of_its_own", [](Json& m) { node(m, 0)["args"][0][1]["v"] = 2; }, "value 2 is used but not defined"},
    {"a_negative_value", [](Json& m) { node(m, 0)["args"][0][1]["v"] = -1; }, "out of range"},
    {"a_huge_value", [](Json& m) { node(m, 0)["results"][0]["value"] = 2000000000; }, "nodes[0].results[0].value"},
    {"a_value_defined_twice", [](Json& m) { node(m, 1)["results"][0]["value"] = 2; }, "defined twice"},
    {"an_id_beyond_64_bits", [](Json& m) { m["inputs"][0]["value"] = 18446744073709551615ull; }, "inputs[0].value"},
    {"an_unknown_dtype", [](Json& m) { m["inputs"][0]["dtype"] = "f8"; }, "inputs[0].dtype"},
    {"a_negative_size", [](Json& m) { m["inputs"][0]["shape"][1] = -4; }, "inputs[0].shape[1]"},
    {"a_size_that_overflows", [](Json& m) { m["inputs"][0]["shape"] = Json::array({int64_t{1} << 40, int64_t{1} << 40}); },
     "too many elements"},
    {"a_fractional_size", [](Json& m) { m["inputs"][0]["shape"][1] = 4.5; }, "not an integer"},
    {"a_size_that_is_no_dim", [](Json& m) { m["inputs"][0]["shape"][0] = "s0 +"; }, "inputs[0].shape[0]"},
    {"a_dim_that_divides", [](Json& m) { m["inputs"][0]["shape"][0] = "s0 / 2"; }, "inputs[0].shape[0]"},
    {"an_undeclared_symbol", [](Json& m) { m["inputs"][0]["shape"][0] = "s9"; }, "symbol s9"},
    {"a_rank_of_hundreds", [](Json& m) { m["inputs"][0]["shape"] = Json(std::vector<int>(300, 1)); }, "rank"},
    {"a_symbol_twice", [](Json& m) { m["symbols"].push_back(m["symbols"][0]); }, "'s0' is there twice"},
    {"a_symbol_named_min", [](Json& m) { m["symbols"][0]["name"] = "min"; }, "symbols[0].name"},
    {"an_empty_range", [](Json& m) { m["symbols"][0]["max"] = 0; }, "range"},
    {"a_symbol_bound_by_nothing", [](Json& m) { m["symbols"][0]["bound_by"]["input"] = "y"; }, "symbols[0].bound_by"},
    {"a_symbol_bound_by_a_missing_axis", [](Json& m) { m["symbols"][0]["bound_by"]["axis"] = 5; }, "no such axis"},
    {"a_symbol_bound_by_another_axis", [](Json& m) { m["symbols"][0]["bound_by"]["axis"] = 1; }, "symbols[0].bound_by"},
    {"an_input_name_twice",
     [](Json& m) {
       m["inputs"].push_back(m["inputs"][0]);
       m["inputs"][1]["value"] = 4;
     },
     "'x' is there twice"},
    {"an_output_name_twice", [](Json& m) { m["outputs"].push_back(m["outputs"][0]); }, "'output' is there twice"},
    {"an_output_that_is_no_value", [](Json& m) { m["outputs"][0]["value"] = 99; }, "outputs[0].value"},
    {"an_output_of_another_type", [](Json& m) { m["outputs"][0]["dtype"] = "i64"; }, "output output"},
    {"a_parameter_alias_twice", [](Json& m) { m["parameters"][0]["aliases"] = {"w"}; }, "'w' is there twice"},
    {"a_parameter_of_another_kind", [](Json& m) { m["parameters"][0]["kind"] = "weight"; }, "parameters[0].kind"},
    {"a_parameter_with_a_symbol", [](Json& m) { m["parameters"][0]["shape"][0] = "s0"; }, "parameters[0].shape"},
    {"a_weights_file_outside", [](Json& m) { m["parameters"][0]["file"] = "../w.safetensors"; }, "leaves the manifest's folder"},
    {"an_absolute_second_trace_file", [](Json& m) { m["files"]["second_trace"] = "/etc/passwd"; }, "files.second_trace"},
    {"a_second_call_without_a_first",
     [](Json& m) {
       m["files"]["second_trace"] = "second_trace.safetensors";
       m["files"].erase("trace");
     },
     "files.second_trace"},
    {"an_absolute_trace_file", [](Json& m) { m["files"]["trace"] = "/etc/passwd"; }, "files.trace"},
    {"an_overload_with_a_space", [](Json& m) { node(m, 0)["op"] = "aten add"; }, "nodes[0].op"},
    {"an_argument_without_a_name", [](Json& m) { node(m, 0)["args"][0] = Json::array({{{"v", 0}}}); }, "nodes[0].args[0]"},
    {"an_argument_twice", [](Json& m) { node(m, 0)["args"].push_back(node(m, 0)["args"][0]); }, "'self' is there twice"},
    {"a_bare_float", [](Json& m) { node(m, 1)["args"][1][1] = 0.5; }, "nodes[1].args[1][1]"},
    {"a_float_of_words", [](Json& m) { node(m, 1)["args"][1][1] = {{"float", "many"}}; }, "nodes[1].args[1][1].float"},
    {"an_argument_of_two_kinds", [](Json& m) { node(m, 1)["args"][1][1] = {{"float", 1.0}, {"v", 0}}; }, "exactly one entry"},
    {"an_argument_of_no_kind", [](Json& m) { node(m, 1)["args"][1][1] = {{"pickle", "x"}}; }, "no such kind"},
    {"a_tensor_where_a_number_belongs", [](Json& m) { node(m, 0)["args"][2][1] = "one"; }, "argument 'alpha'"},
    {"a_missing_argument", [](Json& m) { node(m, 0)["args"].erase(2); }, "has no argument 'alpha'"},
    {"too_few_results",
     [](Json& m) {
       node(m, 0)["results"] = Json::array();
       node(m, 1)["args"][0][1]["v"] = 0;
       node(m, 1)["results"][0]["value"] = 2;
       for (const char* place : {"outputs", "taps"}) m[place][0]["value"] = 2;
       m["module_calls"][0]["output"]["v"] = 2;
     },
     "was recorded with 0 results"},
    {"shapes_that_do_not_broadcast", [](Json& m) { m["parameters"][0]["shape"][0] = 3; }, "do not broadcast"},
    {"a_call_that_does_not_exist", [](Json& m) { node(m, 0)["call"] = 5; }, "nodes[0].call"},
    {"a_file_that_does_not_exist", [](Json& m) { node(m, 0)["file"] = 5; }, "nodes[0].file"},
    {"a_module_call_twice", [](Json& m) { m["module_calls"].push_back(m["module_calls"][0]); }, "is there twice"},
    {"a_parent_that_comes_later", [](Json& m) { m["module_calls"][0]["parent"] = 3; }, "module_calls[0].parent"},
    {"a_line_number_of_letters", [](Json& m) { m["files_table"][0]["lines"]["seven"] = "x"; }, "files_table[0].lines.seven"},
    {"a_tap_twice", [](Json& m) { m["taps"].push_back(m["taps"][0]); }, "'@0/output' is there twice"},
    {"a_tap_of_nothing", [](Json& m) { m["taps"][0]["value"] = 77; }, "taps[0].value"},
    {"a_soundness_of_its_own", [](Json& m) { m["soundness"]["status"] = "surely"; }, "soundness.status"},
    {"a_name_with_a_slash", [](Json& m) { m["name"] = "a/b"; }, "name"},
    {"a_state_without_a_value", [](Json& m) { m["states"] = Json::array({{{"name", "n"}}}); }, "states[0]"},
};
INSTANTIATE_TEST_SUITE_P(Import, BadManifests, ::testing::ValuesIn(kBad),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Import, truncated_text_is_bad_input_at_every_length) {
  std::string text = small_manifest().dump();
  for (size_t length = 0; length < text.size(); length += 37) {
    Error e = error_of([&] { import_manifest_text(std::string_view(text).substr(0, length), catalogue(), "manifest small"); });
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << length;
  }
}

class Folders : public ::testing::Test {
 protected:
  void put(const std::string& name) { std::ofstream(folder / name) << small_manifest().dump(); }

 private:
  TemporaryFolder made_;

 protected:
  const std::filesystem::path& folder = made_.path();
};

TEST_F(Folders, a_manifest_is_found_as_a_file_and_in_its_folder) {
  put("small_manifest.json");
  EXPECT_EQ(find_manifest(folder), folder / "small_manifest.json");
  EXPECT_EQ(find_manifest(folder / "small_manifest.json"), folder / "small_manifest.json");
  EXPECT_EQ(import_manifest(folder, catalogue()).folder, folder);
}

TEST_F(Folders, several_manifests_in_a_folder_are_listed) {
  put("b_manifest.json");
  put("a_manifest.json");
  Error e = error_of([&] { find_manifest(folder); });
  EXPECT_EQ(e.found(), "a_manifest.json, b_manifest.json");
}

TEST_F(Folders, no_manifest_is_bad_input) {
  EXPECT_EQ(error_of([&] { find_manifest(folder); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(error_of([&] { find_manifest(folder / "absent"); }).code(), ErrorCode::bad_input);
}

TEST_F(Folders, analysis_counts_gaps_and_layers_without_throwing) {
  Json m = small_manifest();
  node(m, 0)["op"] = "custom.first.default";
  std::ofstream(folder / "small_manifest.json") << m.dump();
  Analysis a = analyze_manifest(folder, catalogue());
  EXPECT_EQ(a.total, 2);
  EXPECT_EQ(a.supported, 1);
  ASSERT_EQ(a.gaps.size(), 1u);
  EXPECT_EQ(a.gaps[0].count, 1);
  EXPECT_NE(a.gaps[0].places.at(0).find("m.py:7"), std::string::npos);
  ASSERT_EQ(a.layers.size(), 1u);
  EXPECT_EQ(a.layers[0].nodes, 2);
  EXPECT_EQ(a.layers[0].unsupported, 1);
}

TEST(Import, takes_time_in_proportion_to_the_graph) {
  const auto run = [](int nodes) {
    Json m = small_manifest();
    for (int i = 4; i < nodes; ++i)
      m["nodes"].push_back({{"op", "aten.add.Tensor"},
                            {"args", Json::array({Json::array({"self", {{"v", i - 1}}}), Json::array({"other", {{"v", 0}}}),
                                                  Json::array({"alpha", 1})})},
                            {"results", Json::array({{{"value", i}, {"dtype", "f32"}, {"shape", {"s0", 4}}}})}});
    import_manifest_text(m.dump(), catalogue(), "manifest long");
  };
  EXPECT_LT(growth_of_four_times(run, 5000), 8);
}

}  // namespace
}  // namespace pycandle
