// What rounding may do to the values of a recording, kept between runs: computing it takes the reference four runs of every
// layer, and it is the same for every backend. The files are in the user's cache folder, one for each content that was
// verified; nothing beside a recording has a say in verdicts. Every entry has a checksum
// over a secret of this user (floors.secret): one that does not fit is none.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/safetensors.h"
#include "verify/judging/judge.h"

namespace pycandle {

struct KeptFloor {
  Judgement program;  // is the program right? It is: nothing else is kept
  Floor backend;      // what the backend's value is held against
};

class KeptFloors {
 public:
  // identity: of all that the floors depend on. A file that was written for anything else, or that cannot be read, is none.
  explicit KeptFloors(std::string identity);
  static KeptFloors none() { return KeptFloors(""); }

  std::optional<KeptFloor> find(const std::string& key, const Array& golden) const;
  void add(const std::string& key, const KeptFloor&, const Array& golden, double seconds);
  // Only what took long is worth a file, and a folder that cannot be written to is no error.
  void write() const;

 private:
  std::filesystem::path file_;
  std::string identity_, secret_;
  std::optional<Safetensors> kept_;
  std::map<std::string, Array> added_;
  std::map<std::string, std::string> facts_;
  double seconds_ = 0;
  size_t bytes_ = 0;
};

}  // namespace pycandle
