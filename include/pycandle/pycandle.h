// All of the front end. docs/front-end.md explains it.
#pragma once

#include "pycandle/cache.h"
#include "pycandle/checker.h"
#include "pycandle/functional.h"
#include "pycandle/loaded_model.h"
#include "pycandle/model.h"
#include "pycandle/nn.h"
#include "pycandle/project.h"
#include "pycandle/recorded.h"
#include "pycandle/tensor.h"
#include "pycandle/weights.h"
