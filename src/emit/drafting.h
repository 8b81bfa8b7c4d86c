// Writes the draft of one call (draft.h): its steps with loops folded, the modules it has, its text and its numbers.
#pragma once

#include "emit/draft.h"

namespace pycandle::emit {

// The drafts of all calls inside it are ready.
void write_draft(const CallTree&, int32_t call, std::vector<Draft>& drafts, const std::vector<ModuleClass>& classes);
// A size in the call's own nodes that cannot be said in terms of tensors that it sees, if any.
std::optional<Dim> unsaid_size(const CallTree&, int32_t call);

}  // namespace pycandle::emit
