#include "backends/c/file.h"

#include <array>

#include "backends/c/helpers.h"
#include "backends/c/text.h"

namespace pycandle::c {

std::string functions_text(const Generator& g) {
  std::string text = g.naming.is_freestanding ? "" : "#include <math.h>\n";
  text +=
      "#include <stddef.h>\n#include <stdint.h>\n\n"
      "#define INF_F32 (1.0f / 0.0f)\n#define INF_F64 (1.0 / 0.0)\n#define NAN_F32 (0.0f / 0.0f)\n#define NAN_F64 (0.0 / "
      "0.0)\n\n";
  text += helper_texts(g.helpers, g.naming.is_freestanding);
  for (const Function& f : g.functions) {
    if (!f.comment.empty()) text += formatted("/* {} */\n", f.comment);
    text += formatted("static void {}({}) {{\n{}}}\n\n", f.name, f.parameters, f.body);
  }
  return text;
}

std::string calls_text(const Generator& g, const std::function<std::string(const View&)>& pointer, bool has_taps,
                       const char* form) {
  std::string text;
  int depth = 1;
  for (const Step& step : g.steps) {
    if (step.kind == Step::Kind::tap) {
      if (has_taps)
        text += std::string(2 * static_cast<size_t>(depth), ' ') + formatted(form, step.tap, pointer(step.arguments[0].view)) +
                "\n";
      continue;
    }
    std::string line;
    if (step.kind == Step::Kind::text) {
      line = step.text;
      const size_t at = line.find("$0");
      if (at != std::string::npos) line.replace(at, 2, pointer(step.arguments[0].view));
    } else {
      line = g.functions[step.function].name + "(";
      for (size_t i = 0; i < step.arguments.size(); ++i) line += (i == 0 ? "" : ", ") + pointer(step.arguments[i].view);
      line += ");";
    }
    if (line[0] == '}') --depth;
    text += std::string(2 * static_cast<size_t>(depth), ' ') + line + "\n";
    if (line.back() == '{') ++depth;
  }
  return text;
}

namespace {

std::string moved(const std::string& base, const View& v) {
  std::string text = base;
  if (v.offset != 0) text += formatted(" {} {}", v.offset < 0 ? "-" : "+", std::abs(v.offset));
  if (!v.moving.empty()) text += formatted(" + {}", v.moving);
  return text;
}

}  // namespace

std::string loadable_file(const Generator& g) {
  const auto pointer = [&](const View& v) {
    const Buffer& b = g.buffers[v.buffer];
    const std::string type = stored_type(b.dtype);
    std::string base;
    switch (b.place) {
      case Buffer::Place::arena: base = formatted("({} *)(void *)(arena + {})", type, b.offset); break;
      case Buffer::Place::weight: base = formatted("(const {} *)(const void *)(weights + {})", type, b.offset); break;
      case Buffer::Place::input: base = formatted("(const {} *)inputs[{}]", type, b.index); break;
      case Buffer::Place::output: base = formatted("({} *)outputs[{}]", type, b.index); break;
      case Buffer::Place::state: base = formatted("({} *)states[{}]", type, b.index); break;
      case Buffer::Place::status: return std::string("&failed");
    }
    return moved(base, v);
  };
  std::string text = functions_text(g);
  text += formatted(
      "int {}(const void *const *inputs, void *const *outputs, void *const *states, const void *given_weights, void "
      "*given_arena,\n"
      "                 void (*tap)(void *, int, const void *), void *taps) {{\n",
      kEntry);
  text +=
      "  unsigned char *arena = given_arena;\n  const unsigned char *weights = given_weights;\n  int32_t failed = 0;\n"
      "  (void)inputs, (void)outputs, (void)states, (void)weights, (void)arena, (void)tap, (void)taps;\n";
  text += calls_text(g, pointer, true);
  return text + "  return failed;\n}\n";
}

void write_weights(const Generator& g, const std::function<void(const void*, size_t)>& write) {
  static constexpr std::array<char, 64> kZeros{};
  for (const BufferId id : g.used_weights) {
    const Buffer& b = g.buffers[id];
    write(b.data.data(), b.bytes());
    write(kZeros.data(), (64 - b.bytes() % 64) % 64);
  }
}

}  // namespace pycandle::c
