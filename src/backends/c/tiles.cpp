#include "backends/c/tiles.h"

#include <algorithm>
#include <vector>

#include "backends/c/text.h"

namespace pycandle::c {
namespace {

// rows of the left side times `vectors` vectors of the panel: rows * vectors accumulators, each a variable of its own.
std::string tile(int rows, int vectors) {
  const bool unrolls = rows * vectors < 4;  // one after another they would wait for each other
  const int parts = unrolls ? 4 / (rows * vectors) : 1;
  const auto sum = [](int r, int v, int p) { return formatted("s{}_{}_{}", r, v, p); };
  std::string text = formatted(
      "static void tile_{}(const float *a, ptrdiff_t am, ptrdiff_t ak, const float *b, ptrdiff_t bk, ptrdiff_t depth, float *c,\n"
      "                    ptrdiff_t cm, int adds) {{\n",
      rows);
  if (rows == 1) text += "  (void)am, (void)cm;\n";
  for (int r = 0; r < rows; ++r) {
    text += "  vec";
    for (int v = 0; v < vectors; ++v) {
      for (int p = 0; p < parts; ++p) text += formatted("{} {} = {{0}}", v + p == 0 ? "" : ",", sum(r, v, p));
    }
    text += ";\n";
  }
  const auto step = [&](int p, const char* indent) {
    std::string body;
    const std::string at_a = p == 0 ? "" : formatted("{} * ak", p), at_b = p == 0 ? "" : formatted(" + {} * bk", p);
    for (int v = 0; v < vectors; ++v)
      body += formatted("{}const vec b{}_{} = *(const vec *)(b{} + {} * LANES);\n", indent, v, p, at_b, v);
    for (int r = 0; r < rows; ++r) {
      const std::string row = r == 0 ? (p == 0 ? "0" : at_a) : formatted("{} * am{}", r, p == 0 ? "" : " + " + at_a);
      body += formatted("{}const float a{}_{} = a[{}];\n", indent, r, p, row);
      for (int v = 0; v < vectors; ++v) body += formatted("{}{} += a{}_{} * b{}_{};\n", indent, sum(r, v, p), r, p, v, p);
    }
    return body;
  };
  if (parts > 1) {
    text += formatted("  for (; depth >= {0}; depth -= {0}, a += {0} * ak, b += {0} * bk) {{\n", parts);
    for (int p = 0; p < parts; ++p) text += step(p, "    ");
    text += "  }\n";
  }
  text += "  for (; depth > 0; --depth, a += ak, b += bk) {\n" + step(0, "    ") + "  }\n";
  for (int p = 1; p < parts; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) text += formatted("  {} += {};\n", sum(r, v, 0), sum(r, v, p));
    }
  }
  std::string loads, stores;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const std::string place = formatted("*(vec *)(c + {} * cm + {} * LANES)", r, v);
      loads += formatted("    {} += {};\n", sum(r, v, 0), place);
      stores += formatted("  {} = {};\n", place, sum(r, v, 0));
    }
  }
  return text + "  if (adds) {\n" + loads + "  }\n" + stores + "}\n";
}

std::string tiles_of(int most_rows, int vectors) {
  std::vector<int> sizes;
  for (const int rows : {12, 6, 3, 2, 1}) {
    if (rows <= most_rows) sizes.push_back(rows);
  }
  std::string text, choice;
  for (const int rows : sizes) text += tile(rows, vectors);
  text +=
      "static ptrdiff_t tile(ptrdiff_t rows, const float *a, ptrdiff_t am, ptrdiff_t ak, const float *b, ptrdiff_t bk, ptrdiff_t "
      "depth,\n"
      "                      float *c, ptrdiff_t cm, int adds) {\n";
  for (const int rows : sizes) {
    if (rows == 1) {
      text += "  tile_1(a, am, ak, b, bk, depth, c, cm, adds);\n  return 1;\n}\n";
    } else {
      text += formatted("  if (rows >= {0}) {{\n    tile_{0}(a, am, ak, b, bk, depth, c, cm, adds);\n    return {0};\n  }}\n",
                        rows);
    }
  }
  return text;
}

}  // namespace

std::string tile_texts() {
  std::string text = R"(/* Matrix products: as many rows at once as there are registers, times 16 columns. */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#elif defined(__GNUC__)
#define LANES 4
#else
#define LANES 1
#endif
#if defined(__GNUC__)
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#else
typedef float vec;
#endif
)";
  text += "#if LANES == 16\n" + tiles_of(12, 1) + "#elif LANES == 8\n" + tiles_of(6, 2) +
          "#elif LANES == 4 && defined(__aarch64__)\n" + tiles_of(6, 4) + "#elif LANES == 4\n" + tiles_of(3, 4) + "#else\n" +
          tiles_of(1, 16) + "#endif\n";
  text += R"(
/* c (+)= a times b: any number of rows, up to 16 columns. am, bk and cm are the steps between rows, ak between columns of a. */
static void panel(ptrdiff_t rows, const float *a, ptrdiff_t am, ptrdiff_t ak, const float *b, ptrdiff_t bk, ptrdiff_t depth, float *c,
                  ptrdiff_t cm, ptrdiff_t columns, int adds) {
  float edge[12 * 16];
  while (rows > 0) {
    ptrdiff_t done;
    if (columns == 16) {
      done = tile(rows, a, am, ak, b, bk, depth, c, cm, adds);
    } else {
      done = tile(rows, a, am, ak, b, bk, depth, edge, 16, 0);
      for (ptrdiff_t r = 0; r < done; ++r) {
        for (ptrdiff_t j = 0; j < columns; ++j) c[r * cm + j] = adds ? c[r * cm + j] + edge[r * 16 + j] : edge[r * 16 + j];
      }
    }
    rows -= done;
    a += done * am;
    c += done * cm;
  }
}
)";
  return text;
}

}  // namespace pycandle::c
