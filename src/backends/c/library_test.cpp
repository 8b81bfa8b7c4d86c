// The test that stands beside a C library: every layer against the recorded values.
#include <algorithm>

#include "backends/c/library.h"
#include "backends/c/text.h"

namespace pycandle::c {
namespace {

std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string list_of(const Sizes& values) {
  std::string text = "{";
  for (size_t i = 0; i < 8; ++i) text += formatted("{}{}", i == 0 ? "" : ", ", i < values.size() ? values[i] : 0);
  return text + "}";
}

constexpr const char* kCompare = R"(
struct layer {
  const char *name;
  int tap, output; /* output: its index, or -1 */
  char type;       /* f d h b l i s c u */
  int rank;
  ptrdiff_t sizes[8], strides[8];
  ptrdiff_t count;
};

static double element(char type, const void *values, ptrdiff_t i) {
  switch (type) {
    case 'f': return (double)((const float *)values)[i];
    case 'd': return ((const double *)values)[i];
    case 'l': return (double)((const int64_t *)values)[i];
    case 'i': return ((const int32_t *)values)[i];
    case 's': return ((const int16_t *)values)[i];
    case 'c': return ((const int8_t *)values)[i];
    case 'u': return ((const uint8_t *)values)[i];
    default: break;
  }
  const uint16_t bits = ((const uint16_t *)values)[i];
  if (type == 'b') {
    const union { uint32_t bits; float value; } wide = {(uint32_t)bits << 16};
    return (double)wide.value;
  }
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
  return bits & 0x8000 ? -size : size;
}

static int failures;
static double tolerance = 1e-4;

/* Root of the mean square of the difference, beside that of the golden values; NaN never passes against a number. */
static void compare(const struct layer *l, const void *values, const double *golden) {
  double error = 0, scale = 0;
  int differs = 0;
  for (ptrdiff_t i = 0; i < l->count; ++i) {
    ptrdiff_t at = 0, rest = i;
    for (int a = l->rank; a-- > 0; rest /= l->sizes[a]) at += rest % l->sizes[a] * l->strides[a];
    const double ours = element(l->type, values, at), theirs = golden[i];
    if (isnan(ours) != isnan(theirs)) differs = 1;
    if (isnan(theirs) || ours == theirs) continue;
    if (isinf(theirs) || isinf(ours)) differs = 1;
    error += (ours - theirs) * (ours - theirs);
    scale += theirs * theirs;
  }
  for (ptrdiff_t i = 0; i < l->count; ++i) scale += isfinite(golden[i]) ? golden[i] * golden[i] : 0;
  const double part = error == 0 ? 0 : sqrt(error / (scale > 0 ? scale : 1));
  const int is_whole = l->type != 'f' && l->type != 'd' && l->type != 'h' && l->type != 'b';
  const int fine = !differs && part <= (is_whole ? 0 : l->type == 'h' || l->type == 'b' ? 2e-2 : tolerance);
  if (!fine) ++failures;
  printf("%-5s %-60s %.2e\n", fine ? "fine" : "WRONG", l->name, part);
}
)";

char letter(DType d) {
  switch (d) {
    case DType::f32: return 'f';
    case DType::f64: return 'd';
    case DType::f16: return 'h';
    case DType::bf16: return 'b';
    case DType::i64: return 'l';
    case DType::i32: return 'i';
    case DType::i16: return 's';
    case DType::i8: return 'c';
    default: return 'u';
  }
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

const View& tap_view(const Generator& g, size_t tap) {
  return std::find_if(g.steps.begin(), g.steps.end(), [&](const Step& s) { return s.kind == Step::Kind::tap && s.tap == tap; })
      ->arguments[0]
      .view;
}

struct Block {
  std::string name;
  size_t bytes;
};

// What NAME_run takes: inputs, outputs and states, each in memory of its own.
std::vector<Block> blocks_of(const Generator& g) {
  std::vector<Block> blocks;
  const auto add = [&](ValueId v) {
    const Type& type = g.program.graph.type(v);
    blocks.push_back({formatted("block{}", blocks.size()),
                      static_cast<size_t>(count_of(evaluate(type.shape, g.bindings))) * size_of(type.dtype)});
  };
  for (const Input& i : g.program.inputs) add(i.value);
  for (const Output& o : g.program.outputs) add(o.value);
  for (const State& s : g.program.states) add(s.value != kNoValue ? s.value : s.updated);
  return blocks;
}

}  // namespace

std::string library_goldens(const std::vector<Array>& inputs, const std::vector<Array>& states,
                            const std::vector<Golden>& goldens) {
  std::string bytes;
  const auto append = [&](const void* data, size_t count) { bytes.append(static_cast<const char*>(data), count); };
  for (const Array& a : inputs) append(a.data(), a.bytes());
  for (const Array& a : states) append(a.data(), a.bytes());
  for (const Golden& golden : goldens) {
    const std::vector<double> values = load_double(golden.value);
    append(values.data(), values.size() * sizeof(double));
  }
  return bytes;
}

std::string library_test(const Generator& g, const LibraryOptions& options, const std::vector<Golden>& goldens) {
  const std::string macro = upper(options.name);
  std::string text = formatted(
      "/* Compares every layer of {0}.c with what PyTorch computed.\n"
      "   cc -std=c11 -O2 -D{1}_TAPS {0}.c {0}_test.c -lm -o {0}_test && ./{0}_test */\n"
      "#include <math.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <stdlib.h>\n\n#include \"{0}.h\"\n{2}\n",
      options.name, macro, kCompare);
  text += "static const struct layer layers[] = {\n";
  for (const Golden& golden : goldens) {
    View v;
    v.sizes = golden.value.shape();
    v.strides = row_major(v.sizes);
    if (!golden.is_output) v = tap_view(g, golden.tap);
    text += formatted("    {{{}, {}, {}, '{}', {}, {}, {}, {}}},\n", c_string(golden.label),
                      golden.is_output ? -1 : static_cast<int64_t>(golden.tap),
                      golden.is_output ? static_cast<int64_t>(golden.tap) : -1, letter(golden.value.dtype()), v.sizes.size(),
                      list_of(v.sizes), list_of(v.strides), count_of(v.sizes));
  }
  text += formatted(
      "}};\n#define LAYERS {}\n\nstatic double *goldens;\n\nstatic const double *golden_of(int layer) {{\n  const double *at = "
      "goldens;\n"
      "  for (int i = 0; i < layer; ++i) at += layers[i].count;\n  return at;\n}}\n\n",
      goldens.size());
  text += formatted(
      "#ifdef {}_TAPS\nvoid {}_tap(int tap, const void *values);\nvoid {}_tap(int tap, const void *values) {{\n  for (int i = 0; "
      "i < LAYERS; ++i) {{\n"
      "    if (layers[i].tap == tap) compare(&layers[i], values, golden_of(i));\n  }}\n}}\n#endif\n\n",
      macro, options.name, options.name);
  text +=
      "static void *read_all(const char *path, size_t bytes) {\n  FILE *file = fopen(path, \"rb\");\n"
      "  void *data = aligned_alloc(64, (bytes + 127) / 64 * 64);\n"
      "  if (!file || !data || fread(data, 1, bytes, file) != bytes) {\n    fprintf(stderr, \"cannot read %s\\n\", path);\n    "
      "exit(2);\n  }\n"
      "  fclose(file);\n  return data;\n}\n\n";
  const std::vector<Block> blocks = blocks_of(g);
  size_t given = 0, all = 0;
  const size_t inputs = g.program.inputs.size(), outputs = g.program.outputs.size();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i < inputs || i >= inputs + outputs) given += blocks[i].bytes;
  }
  all = given;
  for (const Golden& golden : goldens) all += static_cast<size_t>(golden.value.size()) * 8;
  text += formatted(
      "int main(int count, char **words) {{\n  if (count > 1) tolerance = atof(words[1]);\n"
      "  unsigned char *recorded = read_all(\"{}.goldens\", {});\n",
      options.name, all);
  if (options.embeds_weights)
    text += formatted("  if ({}_init(0) != 0) return 2;\n", options.name);
  else
    text += formatted("  void *file = read_all(\"{0}.weights\", {1}_WEIGHT_BYTES);\n  if ({0}_init(file) != 0) return 2;\n",
                      options.name, macro);
  text += formatted(
      "  goldens = malloc({} + 8);\n  if (!goldens) return 2;\n  for (size_t i = 0; i < {}; ++i) ((unsigned char *)goldens)[i] = "
      "recorded[{} + i];\n",
      all - given, all - given, given);
  size_t at = 0;
  std::string arguments = options.batch.empty() ? "" : "1, ";
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool is_given = i < inputs || i >= inputs + outputs;
    text += formatted("  unsigned char *{} = aligned_alloc(64, {});\n  if (!{}) return 2;\n", blocks[i].name,
                      (blocks[i].bytes + 127) / 64 * 64, blocks[i].name);
    if (is_given) {
      text += formatted("  for (size_t i = 0; i < {}; ++i) {}[i] = recorded[{} + i];\n", blocks[i].bytes, blocks[i].name, at);
      at += blocks[i].bytes;
    }
    arguments += formatted("{}(void *){}", i == 0 ? "" : ", ", blocks[i].name);
  }
  text += formatted("  if ({}_run({}) != 0) return 2;\n", options.name, arguments);
  for (size_t i = 0; i < goldens.size(); ++i) {
    if (goldens[i].is_output)
      text += formatted("  compare(&layers[{}], {}, golden_of({}));\n", i, blocks[inputs + goldens[i].tap].name, i);
  }
  for (const Block& b : blocks) text += formatted("  free({});\n", b.name);
  if (!options.embeds_weights) text += "  free(file);\n";
  text += "  free(goldens);\n  free(recorded);\n  printf(\"%d wrong\\n\", failures);\n  return failures != 0;\n}\n";
  return text;
}

}  // namespace pycandle::c
