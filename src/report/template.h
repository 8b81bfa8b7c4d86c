// The report's page without data, built from web/ (web/dist/report.html); CMake puts its bytes into the program.
#pragma once

#include <string_view>

namespace pycandle::report {

std::string_view page_template();

}  // namespace pycandle::report
