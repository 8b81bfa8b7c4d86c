// result.jsonl: what a verification found, a line a layer; its last line says that it is complete. docs/result-file.md
// has the format. It is written to F.partial, line by line, and renamed, so a run that was killed leaves no result.
#pragma once

#include <filesystem>
#include <memory>

#include "verify/verify.h"

namespace pycandle {

inline constexpr const char* kResultVersion = "1.3.0";

class ResultWriter {
 public:
  explicit ResultWriter(const std::filesystem::path&);
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  void start(const VerifyResult&, const VerifyOptions&);  // name, backend and hashes are known
  void layer(const LayerResult&);
  void finish(const VerifyResult&);                       // the rest, the last line, and the file is there

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A result read back: bad_input when it is not complete, or not what its last line says.
struct StoredLayer {
  std::string input, tap, op;
  Verdict verdict = Verdict::exact;
  double error_rms = 0, floor_rms = 0;  // local
  double cumulative_rms = 0;
};
struct StoredResult {
  std::string name, backend;
  std::map<std::string, std::string> hashes;
  std::vector<StoredLayer> layers;
};
StoredResult read_result(const std::filesystem::path&);

// What became better or worse since then.
struct Change {
  enum class Kind { better, worse, gone, added } kind;
  std::string tap, text;
};
const char* to_string(Change::Kind);     // "better", "worse", "gone", "new"
struct Comparison {
  std::vector<Change> changes;
  std::vector<std::string> notes;       // other weights, another library
  bool regressed() const;               // anything worse or gone
};
Comparison compare_with(const StoredResult& before, const StoredResult& now);
Comparison compare_with(const StoredResult& before, const VerifyResult& now);

}  // namespace pycandle
