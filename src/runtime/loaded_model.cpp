#include "pycandle/loaded_model.h"

#include <mutex>

#include "base/error.h"
#include "runtime/bundle.h"
#include "runtime/text_model.h"

namespace pycandle {

struct ModelCache::Kept {
  Cache cache;
};

ModelCache::ModelCache(std::unique_ptr<Kept> kept) : kept_(std::move(kept)) {}
ModelCache::ModelCache(const ModelCache& other) : kept_(std::make_unique<Kept>(*other.kept_)) {}
ModelCache& ModelCache::operator=(const ModelCache& other) {
  kept_ = std::make_unique<Kept>(*other.kept_);
  return *this;
}
ModelCache::ModelCache(ModelCache&&) noexcept = default;
ModelCache& ModelCache::operator=(ModelCache&&) noexcept = default;
ModelCache::~ModelCache() = default;

int64_t ModelCache::batch() const { return kept_->cache.batch(); }
int64_t ModelCache::capacity() const { return kept_->cache.capacity(); }
std::vector<int64_t> ModelCache::lengths() const { return kept_->cache.lengths(); }
ModelCache ModelCache::fork(const std::vector<int64_t>& sequences) const {
  return ModelCache(std::make_unique<Kept>(Kept{kept_->cache.fork(sequences)}));
}
void ModelCache::truncate(int64_t sequence, int64_t length) { kept_->cache.truncate(sequence, length); }
void ModelCache::save(const std::string& path) const { kept_->cache.save(path); }

// What most callers do not need is made when it is first asked for, once for all threads and sessions.
struct LoadedModel::State {
  struct Shared {
    std::string cache;
    std::once_flag decoder_once, tokenizer_once;
    std::optional<Decoder> decoder;
    std::optional<Tokenizer> tokenizer;
  };
  Model model;
  std::shared_ptr<Shared> shared;

  const Decoder& decoder() const {
    std::call_once(shared->decoder_once, [&] { shared->decoder.emplace(open_decoder(model, shared->cache)); });
    return *shared->decoder;
  }
  const Tokenizer& tokenizer() const {
    std::call_once(shared->tokenizer_once, [&] { shared->tokenizer.emplace(bundled_tokenizer(model)); });
    return *shared->tokenizer;
  }
};

namespace {

template <class Named> std::vector<TensorInfo> infos(const Program& p, const std::vector<Named>& list) {
  std::vector<TensorInfo> all;
  for (const Named& each : list) {
    const Type& type = p.graph.type(each.value);
    TensorInfo info{each.name, type.dtype, {}};
    for (const Dim d : type.shape) info.shape.push_back(d.text());
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace

LoadedModel load_model(const std::string& path, const ModelOptions& options) {
  LoadOptions load;
  load.backend = options.backend.empty() ? usual_backend() : options.backend;
  load.pipeline.threads = options.threads;
  load.pipeline.weights = options.weights;
  load.pipeline.pack_weights = !options.small_memory;
  load.pipeline.dump_dir = options.dump_dir;
  load.pipeline.dump_mode = options.dump_final ? DumpMode::final : DumpMode::all;
  load.pipeline.overrides = options.overrides;
  load.check_weights = options.check_weights;
  load.parameter_budget = options.parameter_budget;
  if (!options.checkpoint.empty()) load.checkpoint = CheckpointRequest{options.checkpoint, {}, {}, {}, false};
  auto shared = std::make_shared<LoadedModel::State::Shared>();
  shared->cache = options.cache;
  LoadedModel loaded;
  loaded.state_ = std::make_shared<const LoadedModel::State>(LoadedModel::State{open_model(path, load), std::move(shared)});
  return loaded;
}

const Model& LoadedModel::model() const { return state_->model; }
const Decoder& LoadedModel::decoder() const { return state_->decoder(); }
const std::string& LoadedModel::name() const { return model().program().name; }
const std::string& LoadedModel::kind() const { return model().recording().model_class; }
const std::string& LoadedModel::backend() const { return model().backend(); }
std::vector<TensorInfo> LoadedModel::inputs() const { return infos(model().program(), model().program().inputs); }
std::vector<TensorInfo> LoadedModel::outputs() const { return infos(model().program(), model().program().outputs); }
std::vector<std::string> LoadedModel::capabilities() const { return capabilities_of(model()); }

bool LoadedModel::can(const std::string& capability) const {
  const std::vector<std::string> all = capabilities();
  return std::find(all.begin(), all.end(), capability) != all.end();
}

LoadedModel::Tensors LoadedModel::forward(const Tensors& inputs) const { return model().forward(inputs); }

LoadedModel::Tensors LoadedModel::trace(const Tensors& inputs,
                                        const std::function<void(const std::string&, const Array&)>& on_tap) const {
  return model().trace(inputs, [&](const Tap& tap, const Array& value) { on_tap(tap.id.text(), value); });
}

LoadedModel LoadedModel::session() const {
  LoadedModel other;
  other.state_ = std::make_shared<const State>(State{model().session(), state_->shared});
  return other;
}

ModelCache LoadedModel::new_cache(int64_t batch, int64_t capacity, const Tensors& inputs) const {
  return ModelCache(std::make_unique<ModelCache::Kept>(ModelCache::Kept{decoder().new_cache(batch, capacity, inputs)}));
}

ModelCache LoadedModel::load_cache(const std::string& path) const {
  return ModelCache(std::make_unique<ModelCache::Kept>(ModelCache::Kept{decoder().load_cache(path)}));
}

LoadedModel::Tensors LoadedModel::step(ModelCache& cache, const Tensors& tokens, const std::vector<int64_t>& counts,
                                       bool last) const {
  return last ? decoder().step_last(cache.kept_->cache, tokens, counts) : decoder().step(cache.kept_->cache, tokens, counts);
}

bool LoadedModel::has_tokenizer() const { return pycandle::has_tokenizer(model()); }
Tokenizer LoadedModel::tokenizer() const { return state_->tokenizer(); }
ChatTemplate LoadedModel::chat_template() const { return bundled_chat_template(model()); }
std::string LoadedModel::generation_config() const { return bundled_generation_config(model()).value_or(""); }

Array LoadedModel::embed(const std::vector<std::string>& texts, const std::string& pooling, bool normalize) const {
  return pycandle::embed(model(), state_->tokenizer(), texts, {parse_pooling(pooling), normalize});
}

}  // namespace pycandle
