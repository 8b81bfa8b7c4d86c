// A value of a template: what JSON has, and functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pycandle::text::jinja {

class Value;
using List = std::vector<Value>;

// What a call gives its function.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
  // By position or by name; undefined when absent.
  Value get(size_t position, std::string_view name) const;
};
using Callable = std::function<Value(const Arguments&)>;

// Keys in the order they were put in, as in Python.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  void set(const std::string& key, Value value);
  const std::vector<std::pair<std::string, Value>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, Value>> items_;
};

class Value {
 public:
  enum class Kind { undefined, none, boolean, integer, real, string, list, dict, function };

  Value() = default;
  static Value none();
  Value(bool v) : kind_(Kind::boolean), integer_(v ? 1 : 0) {}
  Value(int64_t v) : kind_(Kind::integer), integer_(v) {}
  Value(int v) : Value(static_cast<int64_t>(v)) {}
  Value(size_t v) : Value(static_cast<int64_t>(v)) {}
  Value(double v) : kind_(Kind::real), real_(v) {}
  Value(std::string v);
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(List v);
  Value(Dict v);
  Value(Callable v);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_defined() const { return kind_ != Kind::undefined; }
  bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean; }
  bool truth() const;
  int64_t integer() const { return integer_; }
  double real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const std::string& string() const { return *string_; }
  const List& list() const { return *list_; }
  const Dict& dict() const { return *dict_; }
  Dict& shared_dict() const { return *dict_; }  // what a namespace is changed through
  const Callable& function() const { return *function_; }

  // As {{ … }} prints it.
  std::string text() const;
  // As Python's repr, inside lists.
  std::string repr() const;
  std::string json(int indent = -1, bool sort_keys = false, bool ascii = false) const;
  const char* type_name() const;

 private:
  void write_json(std::string& out, int indent, int depth, bool sort_keys, bool ascii) const;

  Kind kind_ = Kind::undefined;
  int64_t integer_ = 0;
  double real_ = 0;
  std::shared_ptr<const std::string> string_;
  std::shared_ptr<const List> list_;
  std::shared_ptr<Dict> dict_;
  std::shared_ptr<const Callable> function_;
};

bool equal(const Value&, const Value&);
// -1, 0 or 1; an error for what has no order.
int compare(const Value&, const Value&);
// JSON text as a value.
Value from_json(std::string_view text);
// ErrorCode::bad_input, "chat template: …".
[[noreturn]] void fail(const std::string& message);

}  // namespace pycandle::text::jinja
