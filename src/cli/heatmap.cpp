#include "cli/heatmap.h"

#include <fmt/format.h>

#include "cli/colours.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

// Of the 256 that terminals know: the nearest of a cube of 6 × 6 × 6.
int terminal_colour(char cell) {
  const auto step = [](unsigned char v) { return v < 48 ? 0 : v < 115 ? 1 : (v - 35) / 40; };
  const Colour c = cell_colour(cell);
  return 16 + 36 * step(c.red) + 6 * step(c.green) + step(c.blue);
}

char shade(char cell) {
  constexpr std::string_view kShades = ".:-=+*#%@";
  if (cell == '.') return ' ';
  return cell == '!' ? '!' : kShades[static_cast<size_t>(cell - 'a') * kShades.size() / 26];
}

}  // namespace

std::string heatmap(const DifferencePicture& picture) {
  if (picture.empty()) return {};
  std::string text = fmt::format("differences up to {}, the last axis across\n", short_number(picture.largest));
  const bool coloured = has_colours();
  for (int64_t row = 0; row < picture.rows; row += coloured ? 2 : 1) {
    text += coloured ? "  " : "  |";
    for (int64_t column = 0; column < picture.columns; ++column) {
      const char cell = picture.cell(row, column);
      if (!coloured) {
        text += shade(cell);
      } else if (row + 1 < picture.rows) {
        text += fmt::format("\033[38;5;{};48;5;{}m▀", terminal_colour(cell), terminal_colour(picture.cell(row + 1, column)));
      } else {
        text += fmt::format("\033[49;38;5;{}m▀", terminal_colour(cell));
      }
    }
    text += coloured ? "\033[0m\n" : "|\n";
  }
  return text;
}

}  // namespace pycandle::cli
