// What a backend is written with, in this repository or out of it (docs/adding-a-backend.md). These headers and those that they
// include are installed as they are (cmake/PycandleKit.cmake).
#pragma once

#include "backends/arena.h"            // IWYU pragma: export
#include "backends/at_sizes.h"         // IWYU pragma: export
#include "backends/backend.h"          // IWYU pragma: export
#include "backends/evaluator.h"        // IWYU pragma: export
#include "backends/fold_parameters.h"  // IWYU pragma: export
#include "backends/groups.h"           // IWYU pragma: export
#include "backends/in_place.h"         // IWYU pragma: export
#include "backends/pattern.h"          // IWYU pragma: export
#include "backends/plugin.h"           // IWYU pragma: export
#include "base/half.h"                 // IWYU pragma: export
#include "base/parallel.h"             // IWYU pragma: export
#include "base/strides.h"              // IWYU pragma: export
#include "base/threads.h"              // IWYU pragma: export
#include "ir/builder.h"                // IWYU pragma: export
#include "ir/evaluation.h"             // IWYU pragma: export
#include "ir/text.h"                   // IWYU pragma: export
#include "ir/verifier.h"               // IWYU pragma: export
#include "ops/core/catalogue.h"        // IWYU pragma: export
#include "params/derived.h"            // IWYU pragma: export
#include "passes/constants.h"          // IWYU pragma: export
#include "passes/pipeline.h"           // IWYU pragma: export
#include "passes/rewriter.h"           // IWYU pragma: export
