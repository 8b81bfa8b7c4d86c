#include "suite/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace pycandle {
namespace {

class PackReader {
 public:
  explicit PackReader(const std::filesystem::path& folder)
      : path_(folder / "cases.jsonl"), tensors_(MappedFile::open(folder / "tensors.bin")) {}

  std::vector<PackedCase> cases() {
    const std::string text = read_text(path_);
    std::vector<PackedCase> cases;
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      ++line_;
      if (end > 0) cases.push_back(read(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (at_ != tensors_->size()) throw damaged(fmt::format("{} bytes of tensors.bin belong to no case", tensors_->size() - at_));
    return cases;
  }

 private:
  Error damaged(const std::string& what) const {
    return Error(ErrorCode::bad_input, fmt::format("the backend tests in {} are damaged", path_.parent_path().string()))
        .found(fmt::format("line {}: {}", line_, what))
        .hint("install PyCandle again, or run tests/backend/make_pack.py in its sources");
  }

  PackedCase read(std::string_view line) {
    const Json json = parse_json(line, path_.string());
    try {
      PackedCase c;
      c.op = json.at("op");
      c.name = json.at("name");
      c.program = json.at("program");
      c.is_random = json.value("random", false);
      for (const char* kind : {"parameters", "states"}) {
        if (!json.contains(kind)) continue;
        for (const Json& p : json.at(kind)) c.parameters.emplace(p.at(0), array(p.at(1), p.at(2)));
      }
      for (const Json& call : json.at("calls")) {
        PackedCall& added = c.calls.emplace_back();
        added.inputs = arrays(call.at("inputs"));
        added.outputs = arrays(call.at("outputs"));
        if (call.contains("states")) added.states = arrays(call.at("states"));
      }
      return c;
    } catch (const Json::exception& error) {
      throw damaged(error.what());
    }
  }

  std::vector<Array> arrays(const Json& list) {
    std::vector<Array> arrays;
    for (const Json& entry : list) arrays.push_back(array(entry.at(0), entry.at(1)));
    return arrays;
  }

  Array array(const std::string& dtype_name, const Sizes& shape) {
    const auto dtype = dtype_from_name(dtype_name);
    if (!dtype) throw damaged("there is no dtype " + dtype_name);
    const size_t bytes = static_cast<size_t>(element_count(shape)) * size_of(*dtype);
    if (bytes > tensors_->size() - at_) throw damaged("tensors.bin ends too early");
    Array copy(*dtype, shape);  // aligned, as the file's are not
    if (bytes > 0) std::memcpy(copy.mutable_data(), tensors_->data() + at_, bytes);
    at_ += bytes;
    return copy;
  }

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> tensors_;
  size_t at_ = 0, line_ = 0;
};

}  // namespace

std::vector<PackedCase> read_pack(const std::filesystem::path& folder) { return PackReader(folder).cases(); }

}  // namespace pycandle
