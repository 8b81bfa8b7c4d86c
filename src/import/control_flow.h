// cond, while_loop and scan: recorded nodes whose arguments are graphs.
#pragma once

#include <string_view>

#include "ops/core/aten_call.h"

namespace pycandle {

class SubgraphImporter {
 public:
  virtual ~SubgraphImporter() = default;
  virtual Graph import_subgraph(int32_t index) = 0;
};

bool is_control_flow(std::string_view op);
Values import_control_flow(AtenCall&, SubgraphImporter&);

}  // namespace pycandle
