#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "text/utf8.h"

namespace pycandle::text::jinja {

void fail(const std::string& message) { throw Error(ErrorCode::bad_input, "chat template: " + message); }

Value Arguments::get(size_t position, std::string_view name) const {
  if (position < positional.size()) return positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return value;
  }
  return {};
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Dict::set(const std::string& key, Value value) {
  for (auto& [name, old] : items_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  items_.emplace_back(key, std::move(value));
}

Value::Value(std::string v) : kind_(Kind::string), string_(std::make_shared<const std::string>(std::move(v))) {}
Value::Value(List v) : kind_(Kind::list), list_(std::make_shared<const List>(std::move(v))) {}
Value::Value(Dict v) : kind_(Kind::dict), dict_(std::make_shared<Dict>(std::move(v))) {}
Value::Value(Callable v) : kind_(Kind::function), function_(std::make_shared<const Callable>(std::move(v))) {}

Value Value::none() {
  Value v;
  v.kind_ = Kind::none;
  return v;
}

bool Value::truth() const {
  switch (kind_) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return integer_ != 0;
    case Kind::real: return real_ != 0;
    case Kind::string: return !string_->empty();
    case Kind::list: return !list_->empty();
    case Kind::dict: return !dict_->items().empty();
    case Kind::function: return true;
  }
  return false;
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"undefined", "none", "boolean", "integer", "number",
                                           "string",    "list", "dict",    "function"};
  return kNames[static_cast<size_t>(kind_)];
}

namespace {

// As Python prints a float: the shortest digits that read back, and always a point or an exponent.
std::string real_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

void write_json_string(std::string& out, const std::string& text, bool ascii) {
  out += Json(text).dump(-1, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace

std::string Value::text() const {
  if (kind_ == Kind::string) return *string_;
  return kind_ == Kind::undefined ? "" : repr();
}

std::string Value::repr() const {
  switch (kind_) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "None";
    case Kind::boolean: return integer_ != 0 ? "True" : "False";
    case Kind::integer: return fmt::format("{}", integer_);
    case Kind::real: return real_text(real_);
    case Kind::string: return quoted(*string_);
    case Kind::function: return "<function>";
    case Kind::list: {
      std::string out = "[";
      for (const Value& v : *list_) out += (out.size() > 1 ? ", " : "") + v.repr();
      return out + "]";
    }
    case Kind::dict: {
      std::string out = "{";
      for (const auto& [key, v] : dict_->items()) out += (out.size() > 1 ? ", " : "") + quoted(key) + ": " + v.repr();
      return out + "}";
    }
  }
  return "";
}

std::string Value::json(int indent, bool sort_keys, bool ascii) const {
  std::string out;
  write_json(out, indent, 0, sort_keys, ascii);
  return out;
}

void Value::write_json(std::string& out, int indent, int depth, bool sort_keys, bool ascii) const {
  const auto line = [&](int level) {
    if (indent >= 0) out += "\n" + std::string(static_cast<size_t>(indent * level), ' ');
  };
  const char* comma = indent >= 0 ? "," : ", ";
  switch (kind_) {
    case Kind::none: out += "null"; return;
    case Kind::boolean: out += integer_ != 0 ? "true" : "false"; return;
    case Kind::integer: out += fmt::format("{}", integer_); return;
    case Kind::real: out += real_text(real_); return;
    case Kind::string: return write_json_string(out, *string_, ascii);
    case Kind::list: {
      if (list_->empty()) {
        out += "[]";
        return;
      }
      out += '[';
      for (size_t i = 0; i < list_->size(); ++i) {
        if (i > 0) out += comma;
        line(depth + 1);
        (*list_)[i].write_json(out, indent, depth + 1, sort_keys, ascii);
      }
      line(depth);
      out += ']';
      return;
    }
    case Kind::dict: {
      std::vector<std::pair<std::string, Value>> items = dict_->items();
      if (items.empty()) {
        out += "{}";
        return;
      }
      if (sort_keys) std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      out += '{';
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += comma;
        line(depth + 1);
        write_json_string(out, items[i].first, ascii);
        out += ": ";
        items[i].second.write_json(out, indent, depth + 1, sort_keys, ascii);
      }
      line(depth);
      out += '}';
      return;
    }
    default: fail(std::string("tojson of what is ") + type_name());
  }
}

bool equal(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string: return a.string() == b.string();
    case Kind::list:
      return a.list().size() == b.list().size() && std::equal(a.list().begin(), a.list().end(), b.list().begin(), equal);
    case Kind::dict: {
      if (a.dict().items().size() != b.dict().items().size()) return false;
      return std::all_of(a.dict().items().begin(), a.dict().items().end(), [&](const auto& item) {
        const Value* other = b.dict().find(item.first);
        return other != nullptr && equal(item.second, *other);
      });
    }
    case Kind::function: return false;
    default: return true;
  }
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  if (a.is(Value::Kind::string) && b.is(Value::Kind::string))
    return a.string() < b.string() ? -1 : a.string() > b.string() ? 1 : 0;
  fail(fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

namespace {

Value convert(const Json& json) {
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List list;
    for (const Json& each : json) list.push_back(convert(each));
    return list;
  }
  Dict dict;
  for (const auto& [key, each] : json.items()) dict.set(key, convert(each));
  return dict;
}

}  // namespace

Value from_json(std::string_view text) { return convert(parse_json(text, "the variables of a chat template")); }

}  // namespace pycandle::text::jinja
