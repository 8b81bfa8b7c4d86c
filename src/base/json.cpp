#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace pycandle {

namespace {

// Reads the text and lets the handler know how far the parser is.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  const char** seen;
  const char& operator*() const { return *at; }
  Cursor& operator++() {
    *seen = ++at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at == b.at; }
};

// Builds the value while it is read. Depth is checked before anything deep exists, and keys when their object ends
// (nlohmann's own insertion looks through all earlier keys, every time).
class Handler {
 public:
  Handler(std::string_view text, std::string_view what, int max_depth)
      : text_(text), at_(text.data()), what_(what), max_depth_(max_depth) {}

  // nlohmann takes a NUL for the end of the text, whatever follows it.
  void refuse_nul() {
    const size_t nul = text_.find('\0');
    if (nul == std::string_view::npos) return;
    at_ = text_.data() + nul;
    fail("it holds a NUL byte");
  }

  const char** position() { return &at_; }
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool v) { return put(v); }
  bool number_integer(Json::number_integer_t v) { return put(v); }
  bool number_unsigned(Json::number_unsigned_t v) { return put(v); }
  bool number_float(Json::number_float_t v, const std::string&) { return put(v); }
  bool string(std::string& v) { return put(std::move(v)); }
  bool binary(Json::binary_t&) { fail("it holds binary data"); }
  bool start_object(size_t) { return open(Json::value_t::object); }
  bool start_array(size_t) { return open(Json::value_t::array); }

  bool key(std::string& name) {
    object().emplace_back(std::move(name), Json());
    return true;
  }

  bool end_object() {
    check_duplicates(object());
    open_.pop_back();
    return true;
  }

  bool end_array() {
    open_.pop_back();
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    std::string text = error.what();
    if (const size_t end = text.find("] "); text.starts_with("[json.exception") && end != std::string::npos)
      text.erase(0, end + 2);
    constexpr size_t kShown = 200;  // the token that was read last can be a whole file
    if (text.size() > kShown) text = "..." + text.substr(text.size() - kShown);
    // The token may hold bytes that are no UTF-8, or half a character after the cut.
    for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
    fail(text);
  }

 private:
  // Json's object is a vector underneath; working on that does no searching.
  using Members = Json::object_t::Container;
  Members& object() { return *open_.back()->get_ptr<Json::object_t*>(); }

  template <class T> Json* place(T&& value) {
    if (open_.empty()) {
      root_ = Json(std::forward<T>(value));
      return &root_;
    }
    if (auto* items = open_.back()->get_ptr<Json::array_t*>()) {
      items->emplace_back(std::forward<T>(value));
      return &items->back();
    }
    Json& member = object().back().second;
    member = Json(std::forward<T>(value));
    return &member;
  }

  template <class T> bool put(T&& value) {
    place(std::forward<T>(value));
    return true;
  }

  bool open(Json::value_t kind) {
    if (static_cast<int>(open_.size()) >= max_depth_) fail(fmt::format("it is nested more than {} levels deep", max_depth_));
    open_.push_back(place(kind));
    return true;
  }

  void check_duplicates(const Members& members) {
    constexpr size_t kFew = 12;
    if (members.size() <= kFew) {
      for (size_t i = 0; i < members.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (members[i].first == members[j].first) duplicate(members[i].first);
      return;
    }
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& [name, value] : members) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) duplicate(*twice);
  }

  [[noreturn]] void duplicate(std::string_view name) {
    fail(fmt::format("the key \"{}\" stands twice in one object", name.substr(0, 100)));
  }

  [[noreturn]] void fail(const std::string& why) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not JSON that can be read", what_))
        .found(fmt::format("{} (byte {} of {})", why, at_ - text_.data(), text_.size()));
  }

  std::string_view text_;
  const char* at_;
  std::string_view what_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;  // the objects and arrays being read; a parent does not grow while its last child is open
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what, int max_depth) {
  Handler handler(text, what, max_depth);
  handler.refuse_nul();
  const Cursor begin{std::to_address(text.begin()), handler.position()};
  const Cursor end{std::to_address(text.end()), handler.position()};
  Json::sax_parse(begin, end, &handler);
  return handler.take();
}

}  // namespace pycandle
