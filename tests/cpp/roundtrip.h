// Every graph that the tests make is printed, parsed and compared: call expect_round_trip on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ir/text.h"

namespace pycandle {

inline void expect_round_trip(const Program& program, const OpTable& table) {
  std::string text = print(program);
  try {
    Program parsed = parse_program(text, table, "printed program");
    EXPECT_TRUE(identical(program, parsed)) << "not the same after printing and parsing:\n"
                                            << text << "\nprinted again:\n"
                                            << print(parsed);
    // The second text is a fixed point, whatever the numbering of the first was.
    std::string again = print(parsed);
    EXPECT_EQ(print(parse_program(again, table)), again);

    std::string plain = print(program, {.origins = false});
    EXPECT_TRUE(structurally_equal(program.graph, parse_program(plain, table, "printed without origins").graph)) << plain;
  } catch (const Error& error) {
    ADD_FAILURE() << "the printed program does not parse: " << error.text() << "\n" << text;
  }
}

}  // namespace pycandle
