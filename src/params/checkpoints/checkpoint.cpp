#include "params/checkpoints/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/json.h"
#include "import/onnx/model.h"
#include "params/checkpoints/readers.h"
#include "params/checkpoints/zip.h"

namespace pycandle {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormats = "safetensors, a state dict saved with torch.save, GGUF, NumPy or HDF5";

// By its beginning: no byte of it is a control character.
bool is_text(Bytes bytes) {
  const std::string_view begin = as_text(bytes.first(std::min<size_t>(bytes.size(), 512)));
  return std::none_of(begin.begin(), begin.end(), [](unsigned char c) { return c < ' ' && c != '\t' && c != '\n' && c != '\r'; });
}

// A damaged one too: by its name, the brace behind its length, or that length.
bool is_meant_as_safetensors(const CheckpointFile& file) {
  constexpr size_t kLength = 8;
  if (file.name.ends_with(".safetensors") && !is_text(file.bytes)) return true;
  if (file.bytes.size() <= kLength) return false;
  return file.bytes[kLength] == std::byte{'{'} ||
         ByteReader(file.bytes, "").number<uint64_t>("the length") <= file.bytes.size() - kLength;
}

// What people take for a checkpoint, by how it begins.
[[noreturn]] void refuse_foreign(const CheckpointFile& file) {
  const auto is = [&](const std::string& what) {
    return Error(ErrorCode::bad_input, file.name + " is " + what).expected(kFormats);
  };
  const std::string_view begin = as_text(file.bytes.first(std::min<size_t>(file.bytes.size(), 512)));
  const uint8_t protocol = begin.size() > 1 ? static_cast<uint8_t>(begin[1]) : 0;
  if (begin[0] == '\x80' && protocol >= 2 && protocol <= 5)
    throw is("a pickle, but not one of torch.save").hint("nothing was executed; save the tensors as safetensors");
  constexpr size_t kTarMagic = 257;
  if (begin.size() > kTarMagic && begin.substr(kTarMagic).starts_with("ustar"))
    throw is("a tar archive, as torch wrote before version 0.2; it is not read");
  if (begin.starts_with("version https://git-lfs.github.com/"))
    throw is("the pointer that Git LFS leaves in place of a large file").hint("git lfs pull fetches the file itself");
  if (begin.starts_with("<!DOCTYPE") || begin.starts_with("<!doctype") || begin.starts_with("<html"))
    throw is("a web page").hint("the download gave a page in place of the file: open it in a browser to see what it says");
  if (onnx::is_onnx_file(file.name))
    throw is("an ONNX file, which is a program with its weights")
        .hint("every command takes it as a model: pycandle inspect, pycandle forward");
  if (is_text(file.bytes)) throw is("a text, not a checkpoint").found(shown_text(begin.substr(0, begin.find('\n'))));
  std::string first;
  for (const char c : begin.substr(0, 8)) first += fmt::format(" {:02x}", static_cast<uint8_t>(c));
  throw is("no checkpoint").found("the first bytes are" + first);
}

}  // namespace

class CheckpointBuilder {
 public:
  explicit CheckpointBuilder(const CheckpointOptions& options) : options_(options) {}

  void add_file(const fs::path& path) {
    auto mapping = MappedFile::open(path);
    const Bytes bytes(mapping->data(), mapping->size());
    add({bytes, mapping, mapping, path.string()});
    out_.files_.push_back(path);
  }
  void add(const CheckpointFile& file) {
    FileContent content = read_any(file);
    if (out_.format_.empty()) out_.format_ = content.format;
    choose_section(content, file.name);
    for (StoredTensor& t : content.tensors) {
      if (!out_.places_.emplace(t.name, out_.tensors_.size()).second)
        throw Error(ErrorCode::bad_input, fmt::format("{}: tensor '{}' is there twice", file.name, shown_text(t.name)));
      out_.tensors_.push_back(std::move(t));
    }
    out_.metadata_.merge(content.metadata);
  }
  Checkpoint take() { return std::move(out_); }
  const Checkpoint& now() const { return out_; }

 private:
  static FileContent read_any(const CheckpointFile& file) {
    if (file.bytes.empty()) throw Error(ErrorCode::bad_input, file.name + " is empty");
    if (is_safetensors(file.bytes)) return read_safetensors(file);  // first: its length may look like any other beginning
    if (is_gguf(file.bytes)) return read_gguf(file);
    if (is_npy(file.bytes)) return read_npy(file);
    if (is_hdf5(file.bytes)) return read_hdf5(file);
    if (is_legacy_torch(file.bytes)) return read_legacy_torch(file);
    if (is_zip(file.bytes)) {
      const std::map<std::string, ZipMember> members = zip_members(file.bytes, file.name);
      return is_torch_zip(members) ? read_torch_zip(file, members) : read_npz(file, members);
    }
    if (is_meant_as_safetensors(file)) return read_safetensors(file);
    refuse_foreign(file);
  }

  // {"model": {…}, "optimizer": {…}, "epoch": 3}: the weights are one part of it, and their names begin there.
  void choose_section(FileContent& content, const std::string& file) {
    if (content.paths.empty()) return;
    std::string section;
    if (options_.section) {
      section = *options_.section;
    } else if (content.format != "torchscript") {
      const std::vector<std::string> usual = usual_sections(content);
      if (usual.size() == 1) section = usual.front();
      if (usual.size() > 1) out_.sections_ = usual;
    }
    if (section.empty()) return;
    FileContent chosen;
    std::map<std::string, size_t> others;
    for (size_t i = 0; i < content.tensors.size(); ++i) {
      StoredTensor& t = content.tensors[i];
      const std::string start = section + content.separator;
      if (t.name.starts_with(start)) {
        t.name.erase(0, start.size());
        chosen.tensors.push_back(std::move(t));
      } else {
        ++others[content.paths[i].front()];
      }
    }
    if (chosen.tensors.empty())
      throw Error(ErrorCode::bad_input, fmt::format("{}: there are no tensors under '{}'", file, shown_text(section)));
    content.tensors = std::move(chosen.tensors);
    out_.section_ = section;
    for (const auto& [name, count] : others) out_.left_out_.push_back({name, count});
  }

  // The entries that are called as weights are; none when tensors stand at the top.
  static std::vector<std::string> usual_sections(const FileContent& content) {
    static const std::set<std::string> kUsual = {
        "state_dict", "model_state_dict", "model",      "model_state",    "module",    "net", "network",
        "weights",    "params",           "params_ema", "state_dict_ema", "model_ema", "ema", "model_weights"};
    std::set<std::string> tops;
    for (const std::vector<std::string>& path : content.paths) {
      if (path.size() < 2) return {};
      tops.insert(path.front());
    }
    std::vector<std::string> usual;
    std::copy_if(tops.begin(), tops.end(), std::back_inserter(usual), [&](const auto& top) { return kUsual.contains(top); });
    return usual;
  }

  CheckpointOptions options_;
  Checkpoint out_;
};

namespace {

bool leaves_folder(const fs::path& file) {
  return file.is_absolute() || std::any_of(file.begin(), file.end(), [](const auto& part) { return part == ".."; });
}

// {"weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
Checkpoint open_index(const fs::path& index, const CheckpointOptions& options) {
  const std::string name = index.string();
  const Json json = parse_json(read_text(index, size_t{256} << 20), name, 8);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    throw Error(ErrorCode::bad_input, name + " is not the index of a checkpoint").expected("an object with a weight_map");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().empty() || leaves_folder(file.get<std::string>()))
      throw Error(ErrorCode::bad_input, fmt::format("{}: the file of '{}' is not one in its folder", name, shown_text(tensor)))
          .found(shown_text(file.dump()));
    files.insert(file.get<std::string>());
  }
  CheckpointBuilder builder(options);
  for (const std::string& file : files) builder.add_file(index.parent_path() / file);
  for (const auto& [tensor, file] : map->items()) {
    if (builder.now().find(tensor) == nullptr)
      throw Error(ErrorCode::bad_input,
                  fmt::format("{}: tensor '{}' is not in {}", name, shown_text(tensor), file.get<std::string>()));
  }
  return builder.take();
}

bool has_weights_name(const fs::path& file) {
  static const std::set<std::string> kEndings = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".npz", ".h5", ".hdf5"};
  return kEndings.contains(file.extension().string());
}

// model-00001-of-00003.safetensors → model-of-00003.safetensors
std::string without_shard(const std::string& name) {
  const size_t of = name.find("-of-");
  if (of == std::string::npos) return name;
  const size_t dash = name.rfind('-', of - 1);
  return dash == std::string::npos ? name : name.substr(0, dash) + name.substr(of);
}

// A folder: its index, else its one file (or one set of shards), safetensors before the others.
Checkpoint open_folder(const fs::path& folder, const CheckpointOptions& options) {
  std::vector<fs::path> indices, files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".index.json")) indices.push_back(entry.path());
    if (entry.is_regular_file() && has_weights_name(entry.path())) files.push_back(entry.path());
  }
  std::sort(indices.begin(), indices.end());
  std::sort(files.begin(), files.end());
  const auto is_safe = [](const fs::path& path) { return path.string().find(".safetensors") != std::string::npos; };
  for (const bool safe : {true, false}) {
    std::vector<fs::path> some;
    std::copy_if(indices.begin(), indices.end(), std::back_inserter(some), [&](const fs::path& p) { return is_safe(p) == safe; });
    if (some.size() == 1) return open_index(some[0], options);
    std::set<std::string> sets;
    some.clear();
    for (const fs::path& file : files) {
      if (is_safe(file) != safe) continue;
      some.push_back(file);
      sets.insert(without_shard(file.filename().string()));
    }
    if (sets.size() != 1) continue;
    CheckpointBuilder builder(options);
    for (const fs::path& file : some) builder.add_file(file);
    return builder.take();
  }
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  throw Error(ErrorCode::bad_input, fmt::format("{} does not say which of its files is the checkpoint", folder.string()))
      .expected("one file of weights, or an index.json")
      .found(names.empty() ? "no file of weights" : fmt::format("{}", fmt::join(names, ", ")))
      .hint("name the file itself");
}

}  // namespace

const StoredTensor* Checkpoint::find(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? nullptr : &tensors_[at->second];
}

std::string sections_text(const Checkpoint& checkpoint) {
  return fmt::format("the weights are in {}: choose with --section {}", fmt::join(checkpoint.sections(), " or in "),
                     checkpoint.sections().front());
}

void Checkpoint::add(const Checkpoint& other) {
  for (const StoredTensor& t : other.tensors_) {
    if (!places_.emplace(t.name, tensors_.size()).second)
      throw Error(ErrorCode::bad_input,
                  fmt::format("tensor '{}' is in both {} and another file", shown_text(t.name), t.storage->where));
    tensors_.push_back(t);
  }
  files_.insert(files_.end(), other.files_.begin(), other.files_.end());
}

Checkpoint Checkpoint::open(const fs::path& path, const CheckpointOptions& options) {
  if (fs::is_directory(path)) return open_folder(path, options);
  if (path.string().ends_with(".index.json")) return open_index(path, options);
  CheckpointBuilder builder(options);
  builder.add_file(path);
  return builder.take();
}

Checkpoint Checkpoint::parse(Bytes bytes, std::shared_ptr<const void> owner, const std::string& name,
                             const CheckpointOptions& options) {
  CheckpointBuilder builder(options);
  builder.add({bytes, nullptr, std::move(owner), name});
  return builder.take();
}

}  // namespace pycandle
