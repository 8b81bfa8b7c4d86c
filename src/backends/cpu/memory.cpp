// Where each buffer of the arena lies: which of them share memory, how long each is in use.
#include <algorithm>
#include <new>

#include "backends/arena.h"
#include "backends/cpu/memory.h"
#include "base/huge_pages.h"

namespace pycandle::cpu {
namespace {

constexpr size_t kLine = 64;

struct Life {
  size_t first = SIZE_MAX, last = 0;
  bool is_used() const { return first != SIZE_MAX; }
  void cover(const Life& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

bool is_arena(const Buffer& b) { return b.kind == Buffer::Kind::arena; }

// Per buffer, whatever memory it shares.
std::vector<Life> lives_of(const Plan& plan) {
  std::vector<Life> lives(plan.buffers.size());
  const auto use = [&](BufferId b, size_t step) {
    lives[b].first = std::min(lives[b].first, step);
    lives[b].last = std::max(lives[b].last, step);
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const BufferId b : plan.steps[s].reads) use(b, s);
    for (const BufferId b : plan.steps[s].writes) use(b, s);
    for (const ValueId v : plan.steps[s].defines) {  // a tap on a view is delivered after the step, and copied from here
      if (plan.views[v].buffer != kNoBuffer) use(plan.views[v].buffer, s);
    }
  }
  for (const View& v : plan.outputs) {
    if (v.buffer != kNoBuffer) use(v.buffer, plan.steps.size());
  }
  return lives;
}

// Whose memory it has.
size_t owner_of(const std::vector<Buffer>& buffers, BufferId b) {
  while (buffers[b].same_as != kNoBuffer) b = buffers[b].same_as;
  return static_cast<size_t>(b);
}

}  // namespace

std::shared_ptr<std::byte> memory_for_runs(size_t bytes) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (bytes >= kLarge) {
    auto pages = std::make_shared<HugePages>(bytes);
    auto* data = static_cast<std::byte*>(pages->data());
    return {std::move(pages), data};
  }
  auto* data = static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), std::align_val_t{kLine}));
  return {data, [](std::byte* p) { ::operator delete(p, std::align_val_t{kLine}); }};
}

void place_buffers(Plan& plan) {
  std::vector<Buffer>& buffers = plan.buffers;
  std::vector<Life> lives = lives_of(plan);

  // In place: the written buffer is the one that was read last.
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const auto& [read, written] : plan.steps[s].may_share) {
      const size_t from = owner_of(buffers, read), to = owner_of(buffers, written);
      if (from == to || !is_arena(buffers[from]) || buffers[from].bytes != buffers[to].bytes) continue;
      if (lives[from].last != s || lives[to].first != s) continue;
      if (is_arena(buffers[to])) {
        buffers[to].same_as = static_cast<BufferId>(from);
        lives[from].cover(lives[to]);
      } else if (buffers[to].kind == Buffer::Kind::output) {
        buffers[from].same_as = static_cast<BufferId>(to);
        lives[to].cover(lives[from]);
      }
    }
  }

  std::vector<size_t> placed;
  std::vector<ArenaBuffer> wanted;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (!is_arena(buffers[b]) || buffers[b].same_as != kNoBuffer || !lives[b].is_used()) continue;
    placed.push_back(b);
    wanted.push_back({buffers[b].bytes, lives[b].first, lives[b].last});
  }
  const Arena arena = place(wanted, kLine);
  for (size_t i = 0; i < placed.size(); ++i) buffers[placed[i]].offset = arena.offsets[i];
  plan.arena_bytes = arena.bytes;

  plan.ends_after.assign(plan.steps.size(), {});
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].kind == Buffer::Kind::held && lives[b].is_used() && lives[b].last < plan.steps.size())
      plan.ends_after[lives[b].last].push_back(static_cast<BufferId>(b));
  }
}

std::vector<PlacedBuffer> placed_buffers(const Plan& plan) {
  std::vector<Life> lives = lives_of(plan);
  for (size_t b = 0; b < lives.size(); ++b) {
    const size_t owner = owner_of(plan.buffers, static_cast<BufferId>(b));
    if (owner != b && lives[b].is_used()) lives[owner].cover(lives[b]);
  }
  std::vector<PlacedBuffer> placed;
  for (size_t b = 0; b < lives.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (!is_arena(buffer) || buffer.same_as != kNoBuffer || !lives[b].is_used()) continue;
    placed.push_back({buffer.offset, buffer.bytes, lives[b].first, std::min(lives[b].last, plan.steps.size() - 1)});
  }
  return placed;
}

}  // namespace pycandle::cpu
