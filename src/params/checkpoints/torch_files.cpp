// PyTorch's checkpoints: the zip form, and the older one of pickles followed by raw storages. A pickle may hold tensors,
// dicts, lists, tuples and numbers; any other class is refused by its name.
#include <algorithm>
#include <charconv>
#include <set>

#include "params/checkpoints/pickle.h"
#include "params/checkpoints/readers.h"
#include "params/checkpoints/zip.h"

namespace pycandle {
namespace {

using Kind = PickleValue::Kind;
constexpr uint64_t kMostPickle = uint64_t{128} << 20;
constexpr size_t kDeepest = 64, kMostVisits = 2'000'000;

struct ElementType {
  std::string_view torch_name;     // torch.float32
  std::string_view storage_class;  // torch.FloatStorage; empty: only untyped storages have it
  std::optional<DType> dtype;      // none: by encoding
  std::string_view encoding;
};

constexpr ElementType kElementTypes[] = {
    {"float32", "FloatStorage", DType::f32, {}},
    {"float64", "DoubleStorage", DType::f64, {}},
    {"float16", "HalfStorage", DType::f16, {}},
    {"bfloat16", "BFloat16Storage", DType::bf16, {}},
    {"int64", "LongStorage", DType::i64, {}},
    {"int32", "IntStorage", DType::i32, {}},
    {"int16", "ShortStorage", DType::i16, {}},
    {"int8", "CharStorage", DType::i8, {}},
    {"uint8", "ByteStorage", DType::u8, {}},
    {"bool", "BoolStorage", DType::boolean, {}},
    {"complex64", "ComplexFloatStorage", DType::c64, {}},
    {"complex128", "ComplexDoubleStorage", DType::c128, {}},
    {"uint8", "UntypedStorage", DType::u8, {}},
    {"uint16", {}, std::nullopt, "u16"},
    {"uint32", {}, std::nullopt, "u32"},
    {"uint64", {}, std::nullopt, "u64"},
    {"float8_e4m3fn", {}, std::nullopt, "f8_e4m3fn"},
    {"float8_e4m3fnuz", {}, std::nullopt, "f8_e4m3fnuz"},
    {"float8_e5m2", {}, std::nullopt, "f8_e5m2"},
    {"float8_e5m2fnuz", {}, std::nullopt, "f8_e5m2fnuz"},
    {"float8_e8m0fnu", {}, std::nullopt, "f8_e8m0fnu"},
};

const ElementType* by_name(std::string_view name) {
  for (const ElementType& type : kElementTypes)
    if (type.torch_name == name) return &type;
  return nullptr;
}

const ElementType* by_storage(std::string_view module, std::string_view name) {
  if (module != "torch" && module != "torch.cuda" && module != "torch.storage") return nullptr;
  for (const ElementType& type : kElementTypes)
    if (!type.storage_class.empty() && type.storage_class == name) return &type;
  return nullptr;
}

size_t element_bytes(const ElementType& type) {
  return type.dtype ? size_of(*type.dtype) : find_encoding(type.encoding)->block_bytes;
}

// What a checkpoint may name. TorchScript's archives also hold classes of their own, which are data there.
bool is_allowed(std::string_view module, std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kAllowed[] = {
      {"collections", "OrderedDict"},
      {"collections", "defaultdict"},
      {"builtins", "dict"},
      {"builtins", "set"},
      {"__builtin__", "set"},
      {"__builtin__", "dict"},
      {"_codecs", "encode"},
      {"torch", "Size"},
      {"torch", "device"},
      {"torch", "Tensor"},
      {"torch.nn.parameter", "Parameter"},
      {"torch.nn.parameter", "Buffer"},
      {"torch._utils", "_rebuild_tensor"},
      {"torch._utils", "_rebuild_tensor_v2"},
      {"torch._utils", "_rebuild_tensor_v3"},
      {"torch._utils", "_rebuild_parameter"},
      {"torch._utils", "_rebuild_parameter_with_state"},
      {"torch._tensor", "_rebuild_from_type_v2"},
      {"torch.jit._pickle", "build_intlist"},
      {"torch.jit._pickle", "build_doublelist"},
      {"torch.jit._pickle", "build_boollist"},
      {"torch.jit._pickle", "build_tensorlist"},
      {"torch.jit._pickle", "restore_type_tag"},
  };
  return by_storage(module, name) != nullptr || (module == "torch" && by_name(name) != nullptr) ||
         module.starts_with("__torch__") ||
         std::find(std::begin(kAllowed), std::end(kAllowed), std::pair{module, name}) != std::end(kAllowed);
}

std::string key_text(const PickleValue& v, const ByteReader& at) {
  if (v.is(Kind::text)) return std::string(v.text);
  if (v.is(Kind::integer) || v.is(Kind::boolean)) return fmt::format("{}", v.integer);
  if (v.is(Kind::real)) return fmt::format("{}", v.real);
  throw at.bad("a dict has a key that is neither a text nor a number");
}

// A storage as the pickle names it; where its bytes are is known to the kind of file.
struct NamedStorage {
  std::string key;
  const ElementType* type;
  int64_t count;
  int64_t view_offset = -1, view_count = 0;  // of old files: a part of another storage; -1: the whole
};

// Turns what a pickle says into tensors with their paths.
class TensorCollector {
 public:
  using FindBytes = std::function<std::shared_ptr<const Storage>(const NamedStorage&)>;
  TensorCollector(const Pickle& pickle, const ByteReader& at, FindBytes find) : p_(pickle), at_(at), find_(std::move(find)) {}

  void collect(FileContent& into) {
    into_ = &into;
    visit(p_.root(), 0);
  }
  // ('storage', torch.FloatStorage, '0', 'cpu', 12), and in old files a view of another one.
  static NamedStorage storage_of(const Pickle& p, const PickleValue& persistent, const ByteReader& at) {
    const PickleValue& id = p[persistent.items[0]];
    const auto wrong = [&] { return at.bad("a storage is not named as torch does"); };
    if (!id.is(Kind::tuple) || id.items.size() < 5 || p[id.items[0]].text != "storage") throw wrong();
    const PickleValue &type = p[id.items[1]], &key = p[id.items[2]], &count = p[id.items[4]];
    const ElementType* element = type.is(Kind::global) ? by_storage(type.module, type.text) : nullptr;
    if (element == nullptr || !count.is(Kind::integer) || count.integer < 0) throw wrong();
    NamedStorage s{key_text(key, at), element, count.integer};
    if (id.items.size() > 5 && !p[id.items[5]].is(Kind::none)) {
      const PickleValue& view = p[id.items[5]];
      if (!view.is(Kind::tuple) || view.items.size() != 3) throw wrong();
      const PickleValue &offset = p[view.items[1]], &size = p[view.items[2]];
      if (!offset.is(Kind::integer) || !size.is(Kind::integer) || offset.integer < 0 || size.integer < 0) throw wrong();
      s.view_offset = offset.integer;
      s.view_count = size.integer;
    }
    return s;
  }

 private:
  void visit(PickleRef ref, size_t depth) {
    if (depth > kDeepest) throw at_.bad("the objects are nested too deeply, or hold themselves").expected("at most 64 levels");
    if (++visits_ > kMostVisits) throw at_.bad("the objects refer to each other too often");
    const PickleValue& v = p_[ref];
    switch (v.kind) {
      case Kind::dict: entries(v.items, 0, depth); return;
      case Kind::list:
      case Kind::tuple:
        for (size_t i = 0; i < v.items.size(); ++i) inside(fmt::format("{}", i), v.items[i], depth);
        return;
      case Kind::call: called(v, depth); return;
      default: return;
    }
  }
  void inside(const std::string& key, PickleRef ref, size_t depth) {
    const Kind kind = p_[ref].kind;
    if (kind != Kind::dict && kind != Kind::list && kind != Kind::tuple && kind != Kind::call) return;
    path_.push_back(key);
    visit(ref, depth + 1);
    path_.pop_back();
  }
  void entries(const std::vector<PickleRef>& items, size_t from, size_t depth) {
    for (size_t i = from; i + 1 < items.size(); i += 2) {
      const Kind kind = p_[items[i]].kind;
      if (kind == Kind::tuple || kind == Kind::none) continue;  // keys of an optimizer's own tables
      inside(key_text(p_[items[i]], at_), items[i + 1], depth);
    }
  }

  void called(const PickleValue& v, size_t depth) {
    const PickleValue& function = p_[v.items[0]];
    const std::vector<PickleRef>& arguments = p_[v.items[1]].items;
    if (function.module.starts_with("__torch__")) {  // a module of TorchScript: its attributes are its state
      visit(v.items[2], depth + 1);
    } else if (function.text == "OrderedDict" || function.text == "defaultdict" || function.text == "dict") {
      if (function.text == "OrderedDict" && !arguments.empty() && p_[arguments[0]].is(Kind::list)) {
        for (const PickleRef pair : p_[arguments[0]].items) entries(p_[pair].items, 0, depth);
      }
      entries(v.items, 3, depth);
    } else if (function.module == "torch.jit._pickle") {
      if (!arguments.empty()) visit(arguments[0], depth + 1);
    } else if (function.module == "torch._utils" || function.module == "torch._tensor") {
      into_->tensors.push_back(tensor(v, depth));
      into_->paths.push_back(path_);
    }
  }

  Sizes sizes(PickleRef ref) const {
    const PickleValue* v = &p_[ref];
    if (v->is(Kind::call) && p_[v->items[0]].text == "Size" && !p_[v->items[1]].items.empty()) v = &p_[p_[v->items[1]].items[0]];
    if (!v->is(Kind::tuple) && !v->is(Kind::list)) throw at_.bad("a tensor's shape is not a list");
    Sizes out;
    for (const PickleRef item : v->items) {
      if (!p_[item].is(Kind::integer) || !p_[item].text.empty()) throw at_.bad("a tensor's shape is not made of numbers");
      out.push_back(p_[item].integer);
    }
    return out;
  }

  StoredTensor tensor(const PickleValue& v, size_t depth) {
    if (depth > kDeepest || !v.is(Kind::call)) throw at_.bad("a parameter holds no tensor");
    const PickleValue& function = p_[v.items[0]];
    std::vector<PickleRef> a = p_[v.items[1]].items;
    const auto wrong = [&] { return at_.bad(fmt::format("a tensor '{}' is not written as torch does", name())); };
    if (a.empty()) throw wrong();
    if (function.text == "_rebuild_parameter" || function.text == "_rebuild_parameter_with_state")
      return tensor(p_[a[0]], depth + 1);
    std::string_view rebuild = function.text;
    if (rebuild == "_rebuild_from_type_v2") {  // (function, class, its arguments, state)
      if (a.size() < 3 || !p_[a[0]].is(Kind::global) || !p_[a[2]].is(Kind::tuple)) throw wrong();
      rebuild = p_[a[0]].text;
      a = p_[a[2]].items;
      if (rebuild == "_rebuild_parameter" && !a.empty()) return tensor(p_[a[0]], depth + 1);
    }
    const bool has_dtype = rebuild == "_rebuild_tensor_v3";
    if (!rebuild.starts_with("_rebuild_tensor") || a.size() < (has_dtype ? 7U : 4U) || !p_[a[0]].is(Kind::persistent) ||
        !p_[a[1]].is(Kind::integer) || p_[a[1]].integer < 0)
      throw wrong();
    const NamedStorage storage = storage_of(p_, p_[a[0]], at_);
    const ElementType* type = storage.type;
    if (has_dtype) {
      const PickleValue& dtype = p_[a[6]];
      type = dtype.is(Kind::global) ? by_name(dtype.text) : nullptr;
      if (type == nullptr) throw wrong();
    }
    const StoredEncoding* encoding = type->dtype ? lazy_view(a, has_dtype ? 7 : 6, *type->dtype) : find_encoding(type->encoding);
    uint64_t offset = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(p_[a[1]].integer), element_bytes(*type), &offset)) throw wrong();
    return strided_tensor(name(), type->dtype ? *type->dtype : encoding->dtype, encoding, sizes(a[2]), sizes(a[3]),
                          find_(storage), offset);
  }

  // The last argument of a tensor that torch keeps as a lazy view of its storage: {'conj': True}, {'neg': True}.
  const StoredEncoding* lazy_view(const std::vector<PickleRef>& arguments, size_t place, DType dtype) const {
    const StoredEncoding* encoding = nullptr;
    if (arguments.size() <= place || !p_[arguments[place]].is(Kind::dict)) return encoding;
    const std::vector<PickleRef>& entries = p_[arguments[place]].items;
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      const PickleValue &key = p_[entries[i]], &value = p_[entries[i + 1]];
      if (!value.is(Kind::boolean) || value.integer == 0) continue;
      const StoredEncoding* next = key.text == "conj"  ? conjugated_encoding(dtype)
                                   : key.text == "neg" ? negated_encoding(dtype)
                                                       : nullptr;
      if (next == nullptr || encoding != nullptr)
        throw at_.bad(fmt::format("tensor '{}' is a lazy view ({}) that is not read", name(), shown_text(key.text)))
            .hint("save the values themselves: tensor.resolve_conj().resolve_neg()");
      encoding = next;
    }
    return encoding;
  }

  std::string name() const { return fmt::format("{}", fmt::join(path_, ".")); }

  const Pickle& p_;
  const ByteReader& at_;
  FindBytes find_;
  FileContent* into_ = nullptr;
  std::vector<std::string> path_;
  size_t visits_ = 0;
};

// <name>/data.pkl; the name is any.
std::string prefix_of(const std::map<std::string, ZipMember>& members) {
  for (const auto& [name, member] : members) {
    if (name.ends_with("/data.pkl") && std::count(name.begin(), name.end(), '/') == 1) return name.substr(0, name.find('/') + 1);
  }
  return {};
}

constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

// The raw storages of an old file by key: each behind its number of elements.
std::map<std::string, Bytes> legacy_storages(ByteReader& reader, const Pickle& keys, const std::map<std::string, size_t>& sizes) {
  std::map<std::string, Bytes> out;
  const PickleValue& list = keys[keys.root()];
  if (!list.is(Kind::list)) throw reader.bad("the list of storages is not a list");
  for (const PickleRef ref : list.items) {
    const std::string key = key_text(keys[ref], reader);
    const auto size = sizes.find(key);
    if (size == sizes.end()) throw reader.bad(fmt::format("storage '{}' is stored, but no tensor uses it", shown_text(key)));
    const auto count = reader.number<int64_t>("the size of a storage");
    uint64_t bytes = 0;
    if (count < 0 || __builtin_mul_overflow(static_cast<uint64_t>(count), size->second, &bytes))
      throw reader.bad(fmt::format("storage '{}' has a bad size", shown_text(key))).found(fmt::format("{}", count));
    if (!out.emplace(key, reader.take(bytes, "a storage")).second)
      throw reader.bad(fmt::format("storage '{}' is there twice", shown_text(key)));
  }
  return out;
}

}  // namespace

bool is_torch_zip(const std::map<std::string, ZipMember>& members) { return !prefix_of(members).empty(); }

FileContent read_torch_zip(const CheckpointFile& file, const std::map<std::string, ZipMember>& members) {
  const std::string prefix = prefix_of(members);
  const auto order = members.find(prefix + "byteorder");
  if (order != members.end() && member_text(order->second, 64, file.name) == "big")
    throw Error(ErrorCode::bad_input, file.name + ": the file was written on a big-endian machine")
        .expected("little-endian")
        .hint("load it there and save it as safetensors");
  const std::string text = member_text(members.at(prefix + "data.pkl"), kMostPickle, file.name + ": data.pkl");
  ByteReader reader(std::as_bytes(std::span(text)), file.name);
  const Pickle pickle(reader, is_allowed);
  std::map<std::string, std::shared_ptr<const Storage>> storages;
  const auto find = [&](const NamedStorage& s) {
    std::shared_ptr<const Storage>& known = storages[s.key];
    if (known) return known;
    const auto member = members.find(prefix + "data/" + s.key);
    if (member == members.end()) throw reader.bad(fmt::format("storage '{}' is not in the archive", shown_text(s.key)));
    known = file.storage(member->second.bytes, member->second.inflated);
    return known;
  };
  FileContent out;
  out.format = members.contains(prefix + "constants.pkl") ? "torchscript" : "torch";
  TensorCollector(pickle, reader, find).collect(out);
  return out;
}

bool is_legacy_torch(Bytes bytes) {
  return bytes.size() > 14 && bytes[0] == std::byte{0x80} && bytes[2] == std::byte{0x8a} && bytes[3] == std::byte{10} &&
         as_text(bytes.subspan(4, 10)) == kLegacyMagic;
}

FileContent read_legacy_torch(const CheckpointFile& file) {
  ByteReader reader(file.bytes, file.name);
  for (int i = 0; i < 3; ++i) Pickle(reader, is_allowed);  // the magic number, the version, facts of the machine
  const Pickle objects(reader, is_allowed);
  // Sizes of elements first: the storages stand behind the objects that name them.
  std::map<std::string, size_t> sizes;
  for (PickleRef ref = 0; ref < objects.count(); ++ref) {
    if (!objects[ref].is(Kind::persistent)) continue;
    const NamedStorage s = TensorCollector::storage_of(objects, objects[ref], reader);
    sizes.emplace(s.key, element_bytes(*s.type));
  }
  const Pickle keys(reader, is_allowed);
  const std::map<std::string, Bytes> raw = legacy_storages(reader, keys, sizes);
  std::map<std::tuple<std::string, int64_t, int64_t>, std::shared_ptr<const Storage>> storages;
  const auto find = [&](const NamedStorage& s) {
    std::shared_ptr<const Storage>& known = storages[{s.key, s.view_offset, s.view_count}];
    if (known) return known;
    const auto at = raw.find(s.key);
    if (at == raw.end()) throw reader.bad(fmt::format("storage '{}' is not in the file", shown_text(s.key)));
    Bytes bytes = at->second;
    if (s.view_offset >= 0) {
      const uint64_t size = element_bytes(*s.type), held = bytes.size() / size;
      if (static_cast<uint64_t>(s.view_offset) > held ||
          static_cast<uint64_t>(s.view_count) > held - static_cast<uint64_t>(s.view_offset))
        throw reader.bad(fmt::format("a view of storage '{}' lies outside it", shown_text(s.key)));
      bytes = bytes.subspan(static_cast<size_t>(s.view_offset) * size, static_cast<size_t>(s.view_count) * size);
    }
    known = file.storage(bytes);
    return known;
  };
  FileContent out;
  out.format = "legacy torch";
  TensorCollector(objects, reader, find).collect(out);
  return out;
}

}  // namespace pycandle
