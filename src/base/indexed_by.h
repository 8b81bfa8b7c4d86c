// A list whose index is an id:
//
//   IndexedBy<ValueId, std::vector<bool>> is_known(graph.values.size());
//   if (is_known[v]) …
#pragma once

#include <cstddef>
#include <utility>

namespace pycandle {

template <class Id, class List> class IndexedBy : public List {
 public:
  using List::List;
  IndexedBy() = default;
  IndexedBy(List items) : List(std::move(items)) {}  // NOLINT(google-explicit-constructor): the same list, with its ids named

  decltype(auto) operator[](Id id) { return List::operator[](static_cast<size_t>(id)); }
  decltype(auto) operator[](Id id) const { return List::operator[](static_cast<size_t>(id)); }
  decltype(auto) at(Id id) { return List::at(static_cast<size_t>(id)); }
  decltype(auto) at(Id id) const { return List::at(static_cast<size_t>(id)); }
  bool has(Id id) const { return id >= Id{} && static_cast<size_t>(id) < List::size(); }
};

}  // namespace pycandle
