#include "import/control_flow.h"

namespace pycandle {

bool is_control_flow(std::string_view op) { return op == "higher_order.cond" || op == "higher_order.while_loop" || op == "higher_order.scan"; }

Values import_control_flow(AtenCall& c, SubgraphImporter&) { c.unsupported("a body"); }

}  // namespace pycandle
