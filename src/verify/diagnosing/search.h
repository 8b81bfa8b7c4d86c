// The search for a cause: what is tried, in which order, and what was found. A file for each subject:
//   causes.cpp             the order, and the mistakes of the catalogue
//   search_choice.cpp      which it is, when several fit
//   search_numbers.cpp     a number that is another one
//   search_parameters.cpp  another parameter, or one that is missing
//   changed_parameter.cpp  a parameter whose values are others than the model's
//   search_values.cpp      another value, a residual, a state, a layer that was left out
//   search_absent.cpp      a factor, a mask, an activation that is missing; a norm in another place
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/mistakes.h"
#include "passes/structure.h"
#include "verify/diagnosing/causes.h"
#include "verify/diagnosing/slice_edits.h"

namespace pycandle {

// A mistake must remove nearly all of the error, not just be drowned in a larger floor of its own.
inline constexpr double kRemoves = 8;
// That a number has which somebody wrote (0.18215, 0.044715).
inline constexpr int kMostDigits = 5;

class Search {
 public:
  Search(const Suspect&, const Trials&, double seconds);
  Causes run();

 private:
  // What this thread works: how busy the machine is does not decide what is found.
  static double seconds_worked();

  // A program that gives the value in question.
  struct Fit {
    Program program;
    std::vector<Array> inputs;
    double left = 0, floor = 0;  // of the error, and what rounding leaves
  };
  // What was found, with what shows it.
  struct Found {
    Cause cause;
    Fit fit;
    Structure structure;
    NodeId at = kNoNode;  // the node that was changed
  };

  bool is_over() const { return seconds_worked() > end_; }
  bool is_found() const { return !found_.empty(); }
  // One of those found leaves no more than rounding does; others may only pass because of the slack.
  bool is_settled() const;
  // What happens in one trial ends that trial.
  template <class F> void attempt(const F& step) {
    try {
      step();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): sizes or indices that do not fit
    }
  }

  std::optional<Fit> explained_by(Program, std::vector<Array> inputs);
  std::optional<Fit> rounded_to(Program);
  bool is_another(const Structure&) const;
  void add(Cause, Fit);
  bool add_mistake(NodeId node, const Mistake&, double number, const std::string& instead, Fit);
  std::string sentence(const std::string& now, const std::string& instead) const;
  Cause cause(NodeId node, const std::string& kind, const std::string& now, const std::string& instead) const;
  bool try_mistake(NodeId node, const Mistake&);
  bool try_alike(NodeId node, const std::vector<std::pair<const Node*, Mistake>>& each, int most_digits);

  // ---- which of those found it is
  const std::optional<Program>& recorded_program();
  bool keep_what_was_recorded();
  void leave_out_slack();
  void leave_out_equal();
  bool is_contradicted(NodeId node, const Mistake&, double number) const;
  bool are_equal(const Found&, const Found&) const;
  Causes result();

  // ---- what is tried
  void catalogue_mistakes();
  enum class Numbers { usual, all };
  void numbers(Numbers, const std::set<NodeId>* only_at = nullptr);
  bool try_number(NodeId node, const Mistake&, Numbers);
  bool try_this_number(NodeId node, const Mistake&, double number, const std::string& text);
  bool try_digits_of(double found, NodeId node, const Mistake&);
  bool try_short_numbers(NodeId node, const Mistake&);
  std::optional<double> fitted_number(NodeId node, const Mistake&);
  std::optional<double> best_number(const std::vector<double>& grid, const std::function<double(double)>& error_of);
  void weights();
  void absent_parameters();
  void exchanged_parameters();
  void integer_parameters();
  void changed_parameters();
  void residuals();
  void try_residual(const std::string& name, const Array&, const std::string& op);
  void stale_states();
  void absent_result();
  void add_absent(const AbsentLayer&, Fit);
  void exchanged_inputs();
  void other_inputs();
  void other_parts();
  void alike_mistakes(int most_digits);
  void residuals_before();
  void absent_factors();
  void try_factor(NodeId node, const Mistake&, const std::string& op);
  void absent_masks();
  void try_mask(NodeId node, const Suspect::InputValue&,
                const std::function<ValueId(const MistakeSite&, ValueId given)>& mask_from);
  void absent_activations();
  void norm_order();

  // ---- the slice
  const Program& program() const { return s_.slice.program; }
  const Graph& graph() const { return s_.slice.program.graph; }
  NodeId reader_of(NodeId node) const;  // people know the op that reads a number, not the one that makes it
  NodeId user_of(ValueId) const;  // the last node where nothing reads it
  NodeId last_node() const { return graph().nodes.size() - 1; }
  std::string input_name(size_t) const;
  std::vector<int64_t> looked_up_rows(const Parameter&) const;

  const Suspect& s_;
  const Trials& trials_;
  const double end_;
  const Array now_;          // what the slice gives
  const bool is_mistyped_;   // and not even the type is right
  const double before_;      // how far it is off
  std::vector<Found> found_;
  std::optional<Program> recorded_;
  bool has_asked_for_recorded_ = false;
  int tried_ = 0;
};

// Inputs of a graph keep their order when it is rewritten.
size_t position_of(const Program&, ValueId input);
double rms_between(const Array&, const Array&);  // infinite when they are of two types

}  // namespace pycandle
