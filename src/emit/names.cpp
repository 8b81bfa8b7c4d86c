#include "emit/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ops/core/spelling.h"

namespace pycandle::emit {
namespace {

// Names that headers have taken, beside C++'s own words: most are macros.
constexpr std::array kTaken{"std",          "main",          "assert",   "errno",     "NULL",
                            "EOF",          "INFINITY",      "NAN",      "signbit",   "isnan",
                            "isinf",        "isfinite",      "isnormal", "M_PI",      "M_E",
                            "linux",        "unix",          "stdin",    "stdout",    "stderr",
                            "major",        "minor",         "makedev",  "alloca",    "offsetof",
                            "BUFSIZ",       "RAND_MAX",      "HUGE_VAL", "MAXFLOAT",  "SNAN",
                            "CHAR_BIT",     "INT_MAX",       "INT_MIN",  "SIZE_MAX",  "EDOM",
                            "ERANGE",       "EIO",           "ETIME",    "EPERM",     "EADV",
                            "PATH_MAX",     "NAME_MAX",      "LINE_MAX", "NZERO",     "TEST",
                            "TEST_F",       "FAIL",          "SUCCEED",  "BENCHMARK", "WEOF",
                            "BIG_ENDIAN",   "LITTLE_ENDIAN", "FP_NAN",   "FP_ZERO",   "CLOCKS_PER_SEC",
                            "EXIT_SUCCESS", "EXIT_FAILURE"};

// Functions of C's headers whose names a model could have: they stand where its namespace would.
constexpr std::array kOfC{
    "abort",  "abs",    "access", "acos",     "acosh",    "alarm",       "asin",   "asinh",     "atan",     "atanh",  "cbrt",
    "ceil",   "clock",  "clone",  "close",    "cos",      "cosh",        "crypt",  "daemon",    "div",      "dup",    "erf",
    "erfc",   "exit",   "exp",    "exp2",     "expm1",    "fabs",        "finite", "floor",     "fma",      "fmax",   "fmin",
    "fmod",   "fork",   "free",   "gamma",    "hypot",    "index",       "j0",     "j1",        "jn",       "kill",   "lgamma",
    "link",   "log",    "log10",  "log1p",    "log2",     "logb",        "modf",   "nan",       "nice",     "pause",  "pipe",
    "pow",    "printf", "puts",   "raise",    "rand",     "random",      "read",   "remainder", "remove",   "rename", "revoke",
    "rewind", "rint",   "round",  "select",   "signal",   "significand", "sin",    "sinh",      "sleep",    "sqrt",   "stat",
    "swab",   "sync",   "system", "tan",      "tanh",     "tgamma",      "time",   "trunc",     "truncate", "wait",   "write",
    "y0",     "y1",     "yn",     "timezone", "daylight", "environ",     "profil", "scalb"};

// Beside what is spoken for: names that constructors and loops have for themselves.
constexpr std::array kOfConstructors{"w", "c", "i", "checker", "forward", "path"};

template <class Table> bool has(const Table& table, std::string_view name) {
  return std::find(table.begin(), table.end(), name) != table.end();
}

bool is_taken(const std::string& name) { return cpp_identifier(name) != name || has(kTaken, name); }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// The letters that people use in formulas and in some languages; any other is its code.
std::string latin(uint32_t letter) {
  static const std::map<uint32_t, const char*> known{
      {0xe4, "ae"},     {0xf6, "oe"},     {0xfc, "ue"},      {0xc4, "Ae"},     {0xd6, "Oe"},   {0xdc, "Ue"},    {0xdf, "ss"},
      {0xe9, "e"},      {0xe8, "e"},      {0xea, "e"},       {0xe0, "a"},      {0xe1, "a"},    {0xe7, "c"},     {0xf1, "n"},
      {0x3b1, "alpha"}, {0x3b2, "beta"},  {0x3b3, "gamma"},  {0x3b4, "delta"}, {0x3b5, "eps"}, {0x3b6, "zeta"}, {0x3b7, "eta"},
      {0x3b8, "theta"}, {0x3ba, "kappa"}, {0x3bb, "lambda"}, {0x3bc, "mu"},    {0x3bd, "nu"},  {0x3be, "xi"},   {0x3c0, "pi"},
      {0x3c1, "rho"},   {0x3c3, "sigma"}, {0x3c4, "tau"},    {0x3c6, "phi"},   {0x3c7, "chi"}, {0x3c8, "psi"},  {0x3c9, "omega"},
      {0x394, "Delta"}, {0x3a3, "Sigma"}, {0x3a9, "Omega"}};
  const auto found = known.find(letter);
  return found != known.end() ? found->second : fmt::format("u{:x}", letter);
}

// One letter of UTF-8 text, which the manifest's reader has checked; moves `at` behind it.
uint32_t decode(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = byte(at);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  uint32_t letter = more == 3 ? first & 0x07 : more == 2 ? first & 0x0f : more == 1 ? first & 0x1f : first;
  for (int i = 1; i <= more; ++i) letter = (letter << 6) | (byte(at + static_cast<size_t>(i)) & 0x3f);
  at += static_cast<size_t>(more) + 1;
  return letter;
}

}  // namespace

std::string identifier(std::string_view python) {
  std::string name;
  for (size_t at = 0; at < python.size();) {
    const char c = python[at];
    if (static_cast<uint8_t>(c) >= 0x80) {
      name += latin(decode(python, at));
      continue;
    }
    ++at;
    const char next = is_letter(c) || is_digit(c) ? c : '_';
    if (next == '_' && !name.empty() && name.back() == '_') continue;  // two together are the compiler's
    name += next;
  }
  while (name.size() > 1 && name.back() == '_') name.pop_back();
  if (name.size() > 1 && name[0] == '_' && is_upper(name[1])) name.erase(0, 1);
  if (name.empty() || name == "_") return "value";
  if (is_digit(name[0])) name.insert(0, 1, '_');
  if (is_taken(name)) name += '_';
  return name;
}

const std::vector<std::string>& spoken_names() {
  static const std::vector<std::string> names{"arange",     "cat",      "full",    "matmul",   "unpack", "where",   "min",
                                              "max",        "floordiv", "mod",     "data_dim", "todo",   "nn",      "std",
                                              "functional", "Tensor",   "Tensors", "Dim",      "State",  "Weights", "Checker",
                                              "DType",      "Ints",     "Numbers", "Config",   "Output", "Module",  "Error",
                                              "ErrorCode",  "pycandle", "int64_t", "floor",    "ceil",   "trunc",   "round"};
  return names;
}

bool is_spoken_for(std::string_view name) { return has(spoken_names(), name); }

bool may_be_member(std::string_view name) { return !is_spoken_for(name) && !has(kOfConstructors, name); }

std::string member_name(std::string_view python) {
  std::string name = identifier(python);
  const bool is_type = is_upper(name[0]);  // rename_hiding_members() knows those: Tensor Tensor
  return is_type || may_be_member(name) ? name : name + "_";
}

std::string namespace_name(std::string_view class_name) {
  std::string name = snake_case(class_name);
  if (name == class_name || is_spoken_for(name) || has(kOfC, name)) name += "_model";
  return name;
}

std::string camel_case(std::string_view name) {
  std::string out;
  bool starts = true;
  for (const char c : identifier(name)) {
    if (c == '_') {
      starts = true;
      continue;
    }
    out += starts ? upper(c) : c;
    starts = false;
  }
  return out.empty() || is_digit(out[0]) ? "Layer" + out : out;
}

std::string snake_case(std::string_view name) {
  std::string out;
  const std::string from = identifier(name);
  size_t word = 0;  // where it begins
  for (size_t i = 0; i < from.size(); ++i) {
    const bool ends = i + 1 == from.size() || !is_letter(from[i + 1]);
    const bool begins_next = !ends && !is_upper(from[i + 1]);  // "TF" of ViTFor: F begins a word, T does not
    bool word_starts = is_upper(from[i]) && i > 0 && from[i - 1] != '_' && (!is_upper(from[i - 1]) || begins_next);
    if (word_starts && i >= 2 && from[i - 1] == '2' && is_letter(from[i - 2]) && !is_upper(from[i - 2])) word_starts = false;
    const bool is_short = i == word + 2 && is_upper(from[word]) && is_letter(from[i - 1]);  // MoE, ViT
    const bool is_alone = ends ||
                          (is_upper(from[i + 1]) && i + 2 < from.size() && is_letter(from[i + 2]) && !is_upper(from[i + 2]));
    if (word_starts && is_short && is_alone) word_starts = false;
    if (word_starts) {
      out += '_';
      word = i;
    }
    out += lower(from[i]);
  }
  return identifier(out);
}

std::string last_part(std::string_view dotted) {
  const size_t dot = dotted.rfind('.');
  return std::string(dot == std::string_view::npos ? dotted : dotted.substr(dot + 1));
}

std::string_view all_but_last(std::string_view dotted) {
  const size_t dot = dotted.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : dotted.substr(0, dot);
}

std::vector<std::string> parts(std::string_view text, char separator) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    found.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return found;
}

std::string Scope::take(const std::vector<std::string>& candidates) {
  for (const std::string& name : candidates) {
    if (!name.empty() && used_.insert(name).second) return name;
  }
  const std::string& first = candidates.at(0);
  for (int number = 2;; ++number) {
    std::string name = fmt::format("{}_{}", first, number);
    if (used_.insert(name).second) return name;
  }
}

}  // namespace pycandle::emit
