// Emitted files beside what a person made of them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "emit/files.h"
#include "emit/line_diff.h"
#include "small_recording.h"

namespace pycandle {
namespace {

using emit::EmittedFiles;
using emit::FileState;

const std::string kOld = "one\ntwo\nthree\nfour\nfive\n";

EmittedFiles files_of(const TemporaryFolder& folder, const std::string& text) { return {folder.path(), {{"model.hpp", text}}}; }

TEST(LineDiff, ShowsWhatChangedWithItsSurroundings) {
  const std::string diff = emit::unified_diff(kOld, "one\ntwo\n3\nfour\nfive\n", "a.hpp");
  EXPECT_NE(diff.find("@@ -1,5 +1,5 @@"), std::string::npos) << diff;
  EXPECT_NE(diff.find("-three\n+3\n"), std::string::npos) << diff;
  EXPECT_EQ(emit::unified_diff(kOld, kOld, "a.hpp"), "");
}

TEST(LineDiff, CarriesLinesOverEdits) {
  using Lines = std::vector<int32_t>;
  EXPECT_EQ(emit::carried_lines(kOld, kOld), (Lines{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(emit::carried_lines(kOld, "zero\none\ntwo\nthree\nfour\nfive\n"), (Lines{0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(emit::carried_lines(kOld, "one\ntwo\n3\nfour\nfive\n"), (Lines{0, 1, 2, 3, 4, 5}));  // replaced where it stood
  EXPECT_EQ(emit::carried_lines(kOld, "one\nfour\nfive\n"), (Lines{0, 1, 0, 0, 2, 3}));
}

TEST(LineDiff, MergesChangesOfDifferentLines) {
  const emit::Merge merged = emit::three_way_merge(kOld, "one\ntwo!\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nfive\nsix\n");
  EXPECT_TRUE(merged.conflicts.empty());
  EXPECT_EQ(merged.text, "one\ntwo!\nthree\nfour\nfive\nsix\n");
}

TEST(LineDiff, NamesTheLineThatBothChanged) {
  const emit::Merge merged = emit::three_way_merge(kOld, "one\ntwo!\nthree\nfour\nfive\n", "one\ntwo?\nthree\nfour\nfive\n");
  EXPECT_EQ(merged.conflicts, (std::vector<size_t>{2}));
}

TEST(EmittedFiles, AreWrittenOverOnlyWhileNobodyEditedThem) {
  const TemporaryFolder folder;
  files_of(folder, kOld).write();
  files_of(folder, kOld + "six\n").write();
  EXPECT_EQ(read_text(folder.path() / "model.hpp"), kOld + "six\n");
  write_text(folder.path() / "model.hpp", "zero\n" + kOld + "six\n");
  const EmittedFiles next = files_of(folder, kOld + "seven\n");
  EXPECT_EQ(next.state(next.files()[0]), FileState::edited);
  EXPECT_THROW(next.write(), Error);
  EXPECT_EQ(read_text(folder.path() / "model.hpp"), "zero\n" + kOld + "six\n");
  EmittedFiles merging = files_of(folder, kOld + "seven\n");
  merging.merge();
  merging.write();
  EXPECT_EQ(read_text(folder.path() / "model.hpp"), "zero\n" + kOld + "seven\n");
}

TEST(EmittedFiles, AFileOfSomebodyElseIsLeftAlone) {
  const TemporaryFolder folder;
  write_text(folder.path() / "model.hpp", "mine\n");
  EmittedFiles files = files_of(folder, kOld);
  EXPECT_EQ(files.state(files.files()[0]), FileState::foreign);
  EXPECT_THROW(files.write(), Error);
  EXPECT_THROW(files.merge(), Error);
  EXPECT_EQ(read_text(folder.path() / "model.hpp"), "mine\n");
}

}  // namespace
}  // namespace pycandle
