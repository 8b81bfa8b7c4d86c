// A picture as a PNG file, without compression: pictures here are small.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pycandle {

// rgb: three bytes a pixel, row by row from the top.
std::string png_of(std::string_view rgb, uint32_t width, uint32_t height);

}  // namespace pycandle
