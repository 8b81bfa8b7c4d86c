// A grammar over characters, and the states of a text that is read with it. States are found while texts are read: each is a
// number, and its way on by a character is kept.
//
//   Grammar g;
//   const Grammar::Rule digits = g.new_rule();
//   g.add(digits, {g.range('0', '9'), digits});     // right recursion alone: a rule never begins with itself
//   g.add(digits, {});
//   Reader reader(std::move(g), digits);
//   reader.next(reader.start(), '7')
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pycandle {

class Grammar {
 public:
  struct Rule {
    int32_t id = 0;
  };
  // Characters, or a rule.
  struct Element {
    Element(Rule rule) : rule(rule.id) {}  // NOLINT(google-explicit-constructor)
    explicit Element(std::vector<std::pair<char32_t, char32_t>> of) : ranges(std::move(of)) {}
    int32_t rule = -1;
    std::vector<std::pair<char32_t, char32_t>> ranges = {};  // first and last
  };
  using Sequence = std::vector<Element>;

  Rule new_rule();
  void add(Rule, Sequence alternative);
  static Element range(char32_t first, char32_t last) { return Element({{first, last}}); }
  static Element one_of(std::string_view ascii);
  static Sequence literal(std::string_view ascii);
  bool has_left_recursion() const;  // some rule may begin with itself: no Reader can read it

 private:
  friend class Reader;
  std::vector<std::vector<Sequence>> rules_;
};

class Reader {
 public:
  using State = int32_t;
  Reader(const Grammar&, Grammar::Rule start);
  State start() const { return 0; }
  std::optional<State> next(State, char32_t);  // none: no text goes on so
  bool may_end(State state) const { return facts_[static_cast<size_t>(state)].may_end; }
  bool must_end(State state) const { return facts_[static_cast<size_t>(state)].must_end; }
  int64_t shortest_end(State state) const { return facts_[static_cast<size_t>(state)].shortest; }  // characters

 private:
  // Where a text stands: places to go on from, the innermost last. A place is an index into elements_.
  using Stack = std::vector<int32_t>;
  struct Place {
    int32_t rule = -1;
    std::vector<std::pair<char32_t, char32_t>> ranges = {};
    bool is_end = false;        // behind the last element of an alternative
    int64_t shortest = 0;       // characters from here to the end of the alternative
  };
  struct Facts {
    bool may_end = false, must_end = false;
    int64_t shortest = 0;
  };
  void expand(Stack stack, std::vector<Stack>& into) const;
  State number_of(std::vector<Stack>);
  void measure();

  std::vector<Place> places_;
  std::vector<std::vector<int32_t>> alternatives_;  // of each rule: where they begin
  std::vector<int64_t> shortest_;                   // of each rule
  std::map<std::vector<Stack>, State> numbers_;
  std::vector<const std::vector<Stack>*> states_;
  std::vector<Facts> facts_;
  std::unordered_map<uint64_t, State> ways_;  // by state and character; -1: none
};

}  // namespace pycandle
