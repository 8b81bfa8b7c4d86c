#include "text/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace pycandle::text::jinja {
namespace {

using Kind = Value::Kind;

const std::string& need_string(const Value& v, const char* what) {
  if (!v.is(Kind::string)) fail(fmt::format("{} of what is {}", what, v.type_name()));
  return v.string();
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size();) {
    const uint32_t size = decode(text.data() + i).size;
    out.push_back(text.substr(i, size));
    i += size;
  }
  return out;
}

std::string strip(const std::string& text, const Value& which, bool left, bool right) {
  const std::vector<std::string> all = characters(text);
  const auto goes = [&](const std::string& c) {
    if (which.is(Kind::string)) return which.string().find(c) != std::string::npos;
    return is_whitespace(decode(c.data()).code) || (c[0] >= 0x1C && c[0] <= 0x1F);
  };
  size_t begin = 0, end = all.size();
  while (left && begin < end && goes(all[begin])) ++begin;
  while (right && end > begin && goes(all[end - 1])) --end;
  std::string out;
  for (size_t i = begin; i < end; ++i) out += all[i];
  return out;
}

std::string mapped(const std::string& text, bool up) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Decoded c = decode(text.data() + i);
    append(out, up ? upper(c.code) : lower(c.code));
    i += c.size;
  }
  return out;
}

// The first letter of the text, or of each word, as a capital, and the others small.
std::string capitalised(const std::string& text, bool each_word) {
  std::string out;
  bool first = true;
  for (const std::string& c : characters(text)) {
    out += mapped(c, first);
    const CodePoint code = decode(c.data()).code;
    first = each_word && upper(code) == lower(code) && c != "'";
  }
  return out;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to, int64_t count) {
  if (from.empty()) return text;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos && count != 0; at = text.find(from, done), --count) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return out.append(text, done);
}

List split(const std::string& text, const Value& separator, int64_t limit) {
  List out;
  if (!separator.is(Kind::string)) {  // runs of white space
    std::string word;
    for (const std::string& c : characters(text)) {
      const bool space = is_whitespace(decode(c.data()).code);
      if (!space || (limit >= 0 && static_cast<int64_t>(out.size()) >= limit && !word.empty())) {
        word += c;
      } else if (!word.empty()) {
        out.emplace_back(word);
        word.clear();
      }
    }
    if (!word.empty()) out.emplace_back(word);
    return out;
  }
  const std::string& by = separator.string();
  if (by.empty()) fail("split by an empty string");
  size_t done = 0;
  for (size_t at = text.find(by); at != std::string::npos && limit != 0; at = text.find(by, done), --limit) {
    out.emplace_back(text.substr(done, at - done));
    done = at + by.size();
  }
  out.emplace_back(text.substr(done));
  return out;
}

bool any_of(const Value& which, const std::function<bool(const std::string&)>& holds) {
  if (which.is(Kind::list))
    return std::any_of(which.list().begin(), which.list().end(),
                       [&](const Value& v) { return holds(need_string(v, "startswith")); });
  return holds(need_string(which, "startswith"));
}

Value join(const Value& subject, const std::string& by, const Value& attribute) {
  std::string out;
  bool first = true;
  for (const Value& v : elements_of(subject)) {
    if (!first) out += by;
    first = false;
    out += (attribute.is_defined() ? element_of(v, attribute) : v).text();
  }
  return out;
}

List items_of(const Value& subject) {
  if (!subject.is(Kind::dict)) fail(fmt::format("items of what is {}", subject.type_name()));
  List out;
  for (const auto& [key, value] : subject.dict().items()) out.emplace_back(List{key, value});
  return out;
}

// A dotted path, as attribute= takes.
Value path_of(const Value& subject, const std::string& path) {
  Value v = subject;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    v = element_of(v, path.substr(at, dot - at));
    at = dot + 1;
  }
  return v;
}

// selectattr("role", "equalto", "user"), select("string"), and their opposites.
Value selected(const Value& subject, const Arguments& a, bool by_attribute, bool keep) {
  List out;
  const size_t test = by_attribute ? 1 : 0;
  Arguments rest;
  for (size_t i = test + 1; i < a.positional.size(); ++i) rest.positional.push_back(a.positional[i]);
  for (const Value& v : elements_of(subject)) {
    const Value looked_at = by_attribute ? path_of(v, need_string(a.get(0, "attribute"), "selectattr")) : v;
    const bool holds = a.positional.size() > test ? apply_test(need_string(a.positional[test], "select"), looked_at, rest)
                                                  : looked_at.truth();
    if (holds == keep) out.push_back(v);
  }
  return out;
}

Value map_all(const Value& subject, const Arguments& a) {
  List out;
  Arguments rest;
  const Value attribute = a.get(SIZE_MAX, "attribute");
  for (size_t i = 1; i < a.positional.size(); ++i) rest.positional.push_back(a.positional[i]);
  for (const Value& v : elements_of(subject)) {
    if (attribute.is_defined()) {
      Value found = path_of(v, need_string(attribute, "map"));
      out.push_back(found.is_defined() ? found : a.get(SIZE_MAX, "default"));
    } else {
      out.push_back(apply_filter(need_string(a.get(0, "filter"), "map"), v, rest));
    }
  }
  return out;
}

Value to_integer(const Value& v, const Value& otherwise) {
  if (v.is_number()) return static_cast<int64_t>(std::clamp(v.real(), -9e18, 9e18));
  if (v.is(Kind::string)) {
    int64_t out = 0;
    const std::string text = strip(v.string(), {}, true, true);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && end == text.data() + text.size()) return out;
  }
  return otherwise.is_defined() ? otherwise : Value(0);
}

Value sorted(const Value& subject, const Arguments& a) {
  List out = elements_of(subject);
  const Value attribute = a.get(SIZE_MAX, "attribute");
  const auto key = [&](const Value& v) {
    const Value k = attribute.is_defined() ? path_of(v, attribute.text()) : v;
    return k.is(Kind::string) ? Value(mapped(k.string(), false)) : k;
  };
  const bool reverse = a.get(0, "reverse").truth();
  std::stable_sort(out.begin(), out.end(), [&](const Value& x, const Value& y) {
    return reverse ? compare(key(y), key(x)) < 0 : compare(key(x), key(y)) < 0;
  });
  return out;
}

Value unique(const Value& subject) {
  List out;
  for (const Value& v : elements_of(subject)) {
    if (std::none_of(out.begin(), out.end(), [&](const Value& o) { return equal(o, v); })) out.push_back(v);
  }
  return out;
}

std::string indented(const std::string& text, const Arguments& a) {
  const Value width = a.get(0, "width");
  const auto count = static_cast<size_t>(std::clamp<int64_t>(width.is(Kind::integer) ? width.integer() : 4, 0, 200));
  const std::string by = width.is(Kind::string) ? width.string() : std::string(count, ' ');
  const bool first = a.get(1, "first").truth(), blank = a.get(2, "blank").truth();
  std::string out;
  size_t done = 0;
  for (bool head = true; done <= text.size(); head = false) {
    const size_t end = std::min(text.find('\n', done), text.size());
    if (head ? first : (blank || end > done)) out += by;
    out.append(text, done, end - done);
    if (end < text.size()) out += '\n';
    done = end + 1;
  }
  return out;
}

Value to_json(const Value& v, const Arguments& a) {
  const Value indent = a.get(0, "indent");
  return v.json(indent.is(Kind::integer) ? static_cast<int>(std::clamp<int64_t>(indent.integer(), 0, 32)) : -1,
                a.get(SIZE_MAX, "sort_keys").truth(), a.get(SIZE_MAX, "ensure_ascii").truth());
}

using Filter = Value (*)(const Value&, const Arguments&);

const std::map<std::string, Filter, std::less<>>& filters() {
  static const std::map<std::string, Filter, std::less<>> all = {
      {"trim", [](const Value& v, const Arguments& a) { return Value(strip(v.text(), a.get(0, "chars"), true, true)); }},
      {"upper", [](const Value& v, const Arguments&) { return Value(mapped(v.text(), true)); }},
      {"lower", [](const Value& v, const Arguments&) { return Value(mapped(v.text(), false)); }},
      {"capitalize", [](const Value& v, const Arguments&) { return Value(capitalised(v.text(), false)); }},
      {"title", [](const Value& v, const Arguments&) { return Value(capitalised(v.text(), true)); }},
      {"length", [](const Value& v, const Arguments&) { return Value(length_of(v)); }},
      {"count", [](const Value& v, const Arguments&) { return Value(length_of(v)); }},
      {"string", [](const Value& v, const Arguments&) { return Value(v.text()); }},
      {"safe", [](const Value& v, const Arguments&) { return v; }},
      {"int", [](const Value& v, const Arguments& a) { return to_integer(v, a.get(0, "default")); }},
      {"abs",
       [](const Value& v, const Arguments&) {
         return v.is(Kind::real) ? Value(std::abs(v.real())) : Value(v.integer() < 0 ? 0 - v.integer() : v.integer());
       }},
      {"list", [](const Value& v, const Arguments&) { return Value(elements_of(v)); }},
      {"items", [](const Value& v, const Arguments&) { return Value(v.is_defined() ? items_of(v) : List{}); }},
      {"dictsort",
       [](const Value& v, const Arguments&) {
         List out = items_of(v);
         std::stable_sort(out.begin(), out.end(), [](const Value& x, const Value& y) {
           return mapped(x.list()[0].string(), false) < mapped(y.list()[0].string(), false);
         });
         return Value(out);
       }},
      {"first",
       [](const Value& v, const Arguments&) {
         const List l = elements_of(v);
         return l.empty() ? Value() : l.front();
       }},
      {"last",
       [](const Value& v, const Arguments&) {
         const List l = elements_of(v);
         return l.empty() ? Value() : l.back();
       }},
      {"reverse", [](const Value& v, const Arguments&) { return slice_of(v, {}, {}, -1); }},
      {"sort", sorted},
      {"unique", [](const Value& v, const Arguments&) { return unique(v); }},
      {"join", [](const Value& v, const Arguments& a) { return join(v, a.get(0, "d").text(), a.get(1, "attribute")); }},
      {"replace",
       [](const Value& v, const Arguments& a) {
         return Value(replaced(v.text(), a.get(0, "old").text(), a.get(1, "new").text(), -1));
       }},
      {"default",
       [](const Value& v, const Arguments& a) {
         return v.is_defined() && (v.truth() || !a.get(1, "boolean").truth()) ? v
                : a.positional.empty()                                        ? Value("")
                                                                              : a.positional[0];
       }},
      {"indent", [](const Value& v, const Arguments& a) { return Value(indented(v.text(), a)); }},
      {"tojson", to_json},
      {"map", map_all},
      {"select", [](const Value& v, const Arguments& a) { return selected(v, a, false, true); }},
      {"reject", [](const Value& v, const Arguments& a) { return selected(v, a, false, false); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, true); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, false); }},
  };
  return all;
}

using Test = bool (*)(const Value&, const Value& other);

bool contains(const Value& where, const Value& what) {
  if (where.is(Kind::string)) return where.string().find(need_string(what, "in")) != std::string::npos;
  if (where.is(Kind::dict)) return what.is(Kind::string) && where.dict().find(what.string()) != nullptr;
  if (!where.is(Kind::list)) fail(fmt::format("in of what is {}", where.type_name()));
  return std::any_of(where.list().begin(), where.list().end(), [&](const Value& v) { return equal(v, what); });
}

const std::map<std::string, Test, std::less<>>& tests() {
  static const std::map<std::string, Test, std::less<>> all = {
      {"defined", [](const Value& v, const Value&) { return v.is_defined(); }},
      {"undefined", [](const Value& v, const Value&) { return !v.is_defined(); }},
      {"none", [](const Value& v, const Value&) { return v.is(Kind::none); }},
      {"boolean", [](const Value& v, const Value&) { return v.is(Kind::boolean); }},
      {"true", [](const Value& v, const Value&) { return v.is(Kind::boolean) && v.truth(); }},
      {"false", [](const Value& v, const Value&) { return v.is(Kind::boolean) && !v.truth(); }},
      {"integer", [](const Value& v, const Value&) { return v.is(Kind::integer); }},
      {"float", [](const Value& v, const Value&) { return v.is(Kind::real); }},
      {"number", [](const Value& v, const Value&) { return v.is_number(); }},
      {"string", [](const Value& v, const Value&) { return v.is(Kind::string); }},
      {"mapping", [](const Value& v, const Value&) { return v.is(Kind::dict); }},
      {"sequence", [](const Value& v, const Value&) { return v.is(Kind::list) || v.is(Kind::string) || v.is(Kind::dict); }},
      {"iterable", [](const Value& v, const Value&) { return v.is(Kind::list) || v.is(Kind::string) || v.is(Kind::dict); }},
      {"callable", [](const Value& v, const Value&) { return v.is(Kind::function); }},
      {"odd", [](const Value& v, const Value&) { return v.integer() % 2 != 0; }},
      {"even", [](const Value& v, const Value&) { return v.integer() % 2 == 0; }},
      {"divisibleby",
       [](const Value& v, const Value& o) { return o.integer() != 0 && o.integer() != -1 && v.integer() % o.integer() == 0; }},
      {"equalto", equal},
      {"eq", equal},
      {"==", equal},
      {"sameas", equal},
      {"ne", [](const Value& v, const Value& o) { return !equal(v, o); }},
      {"lt", [](const Value& v, const Value& o) { return compare(v, o) < 0; }},
      {"gt", [](const Value& v, const Value& o) { return compare(v, o) > 0; }},
      {"in", [](const Value& v, const Value& o) { return contains(o, v); }},
  };
  return all;
}

using Method = Value (*)(const Value&, const Arguments&);

Value strip_method(const Value& v, const Arguments& a, bool left, bool right) {
  return strip(v.string(), a.get(0, "chars"), left, right);
}

const std::map<std::string, Method, std::less<>>& string_methods() {
  static const std::map<std::string, Method, std::less<>> all = {
      {"strip", [](const Value& v, const Arguments& a) { return strip_method(v, a, true, true); }},
      {"lstrip", [](const Value& v, const Arguments& a) { return strip_method(v, a, true, false); }},
      {"rstrip", [](const Value& v, const Arguments& a) { return strip_method(v, a, false, true); }},
      {"upper", [](const Value& v, const Arguments&) { return Value(mapped(v.string(), true)); }},
      {"lower", [](const Value& v, const Arguments&) { return Value(mapped(v.string(), false)); }},
      {"capitalize", [](const Value& v, const Arguments&) { return Value(capitalised(v.string(), false)); }},
      {"title", [](const Value& v, const Arguments&) { return Value(capitalised(v.string(), true)); }},
      {"startswith",
       [](const Value& v, const Arguments& a) {
         return Value(any_of(a.get(0, "prefix"), [&](const std::string& p) { return v.string().starts_with(p); }));
       }},
      {"endswith",
       [](const Value& v, const Arguments& a) {
         return Value(any_of(a.get(0, "suffix"), [&](const std::string& p) { return v.string().ends_with(p); }));
       }},
      {"split",
       [](const Value& v, const Arguments& a) {
         const Value limit = a.get(1, "maxsplit");
         return Value(split(v.string(), a.get(0, "sep"), limit.is(Kind::integer) ? limit.integer() : -1));
       }},
      {"splitlines",
       [](const Value& v, const Arguments&) {
         List out = split(v.string(), "\n", -1);
         if (out.back().string().empty()) out.pop_back();
         return Value(out);
       }},
      {"replace",
       [](const Value& v, const Arguments& a) {
         const Value count = a.get(2, "count");
         return Value(replaced(v.string(), need_string(a.get(0, "old"), "replace"), need_string(a.get(1, "new"), "replace"),
                               count.is(Kind::integer) ? count.integer() : -1));
       }},
      {"join", [](const Value& v, const Arguments& a) { return join(a.get(0, "iterable"), v.string(), {}); }},
      {"find",
       [](const Value& v, const Arguments& a) {
         const size_t at = v.string().find(need_string(a.get(0, "sub"), "find"));
         return at == std::string::npos ? Value(-1) : Value(count_characters(std::string_view(v.string()).substr(0, at)));
       }},
      {"count",
       [](const Value& v, const Arguments& a) {
         const size_t parts = split(v.string(), need_string(a.get(0, "sub"), "count"), -1).size();
         return Value(parts - 1);
       }},
      {"isdigit",
       [](const Value& v, const Arguments&) {
         return Value(!v.string().empty() && v.string().find_first_not_of("0123456789") == std::string::npos);
       }},
  };
  return all;
}

const std::map<std::string, Method, std::less<>>& dict_methods() {
  static const std::map<std::string, Method, std::less<>> all = {
      {"items", [](const Value& v, const Arguments&) { return Value(items_of(v)); }},
      {"keys", [](const Value& v, const Arguments&) { return Value(elements_of(v)); }},
      {"values",
       [](const Value& v, const Arguments&) {
         List out;
         for (const auto& [key, value] : v.dict().items()) out.push_back(value);
         return Value(out);
       }},
      {"get",
       [](const Value& v, const Arguments& a) {
         const Value* found = v.dict().find(a.get(0, "key").text());
         if (found != nullptr) return *found;
         const Value otherwise = a.get(1, "default");
         return otherwise.is_defined() ? otherwise : Value::none();
       }},
  };
  return all;
}

const Method* find_method(const Value& subject, const std::string& name) {
  if (!subject.is(Kind::string) && !subject.is(Kind::dict)) return nullptr;
  const auto& all = subject.is(Kind::string) ? string_methods() : dict_methods();
  const auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace

Value apply_filter(const std::string& name, const Value& subject, const Arguments& a) {
  const auto it = filters().find(name == "d" ? "default" : name == "e" ? "safe" : name);
  if (it == filters().end()) throw Error(ErrorCode::gap, fmt::format("chat template: the filter {} is not supported", name));
  return it->second(subject, a);
}

bool apply_test(const std::string& name, const Value& subject, const Arguments& a) {
  const auto it = tests().find(name);
  if (it == tests().end()) throw Error(ErrorCode::gap, fmt::format("chat template: the test {} is not supported", name));
  return it->second(subject, a.get(0, "other"));
}

bool has_method(const Value& subject, const std::string& name) { return find_method(subject, name) != nullptr; }

Value call_method(const Value& subject, const std::string& name, const Arguments& a) {
  return (*find_method(subject, name))(subject, a);
}

size_t length_of(const Value& v) {
  if (v.is(Kind::string)) return count_characters(v.string());
  if (v.is(Kind::list)) return v.list().size();
  if (v.is(Kind::dict)) return v.dict().items().size();
  if (!v.is_defined()) return 0;
  fail(fmt::format("length of what is {}", v.type_name()));
}

List elements_of(const Value& v) {
  if (v.is(Kind::list)) return v.list();
  List out;
  if (v.is(Kind::string)) {
    for (std::string& c : characters(v.string())) out.emplace_back(std::move(c));
  } else if (v.is(Kind::dict)) {
    for (const auto& [key, value] : v.dict().items()) out.emplace_back(key);
  } else if (v.is_defined()) {
    fail(fmt::format("what is {} has no elements", v.type_name()));
  }
  return out;
}

Value element_of(const Value& subject, const Value& key) {
  if (subject.is(Kind::dict)) {
    const Value* found = key.is(Kind::string) ? subject.dict().find(key.string()) : nullptr;
    return found != nullptr ? *found : Value();
  }
  if ((subject.is(Kind::list) || subject.is(Kind::string)) && key.is(Kind::integer)) {
    const List all = subject.is(Kind::list) ? List() : elements_of(subject);
    const List& list = subject.is(Kind::list) ? subject.list() : all;
    const auto size = static_cast<int64_t>(list.size());
    const int64_t at = key.integer() < 0 ? key.integer() + size : key.integer();
    return at >= 0 && at < size ? list[static_cast<size_t>(at)] : Value();
  }
  if (!subject.is_defined() || subject.is(Kind::none)) fail(fmt::format("{} of what is {}", key.text(), subject.type_name()));
  return {};
}

Value slice_of(const Value& subject, const Value& from, const Value& to, const Value& step) {
  const List list = elements_of(subject);
  const auto size = static_cast<int64_t>(list.size());
  const int64_t by = step.is(Kind::integer) ? step.integer() : 1;
  if (by == 0) fail("a slice with step 0");
  const int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  const auto place = [&](const Value& v, int64_t otherwise) {
    if (!v.is(Kind::integer)) return otherwise;
    return std::clamp(v.integer() < 0 ? v.integer() + size : v.integer(), lowest, highest);
  };
  const int64_t begin = place(from, by < 0 ? highest : lowest), end = place(to, by < 0 ? lowest : highest);
  List out;
  for (int64_t i = begin; by < 0 ? i > end : i < end; i += std::clamp(by, -size - 1, size + 1))
    out.push_back(list[static_cast<size_t>(i)]);
  return subject.is(Kind::string) ? join(out, "", {}) : Value(out);
}

}  // namespace pycandle::text::jinja
