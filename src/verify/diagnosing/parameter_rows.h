// Which elements of a layer's result are made of which row (or column) of a parameter, and which of those are wrong.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verify/diagnosing/changed_parameter.h"

namespace pycandle {

class ParameterRows {
 public:
  struct Row {
    std::vector<size_t> places;  // in the result
    double error = 0, size = 0;  // RMS of wanted - given, and of wanted
  };
  // Nothing is known of a parameter whose rows are mixed.
  explicit ParameterRows(const ParameterUse&);

  const std::map<int64_t, Row>& all() const { return all_; }
  const std::vector<int64_t>& wrong() const { return wrong_; }
  const std::vector<int64_t>& right() const { return right_; }
  size_t axis() const { return axis_; }                        // of the parameter
  std::string text(const std::vector<int64_t>& rows) const;   // "rows 3, 4 and 9"
  std::string noun(bool is_one = false) const;                // "columns"
  // Elements of the parameter.
  std::vector<size_t> elements(int64_t row) const;

 private:
  bool find_axis(size_t parameter_axis);
  void measure();

  const ParameterUse& use_;
  size_t axis_ = 0;
  std::map<int64_t, Row> all_;
  std::vector<int64_t> wrong_, right_;
};

}  // namespace pycandle
