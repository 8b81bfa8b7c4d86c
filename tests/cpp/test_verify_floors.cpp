// Kept floors are trusted when this user's verify wrote them, and only then.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "temporary_folder.h"
#include "verify/judging/floors.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentity = "manifest weights goldens library";

Array golden() { return store(DType::f32, {3}, std::vector<double>{1, 2, 3}); }

void keep_one() {
  KeptFloor kept;
  kept.backend = {{1, 2, 3}, {{0.1, 0.1, 0.1}}, 2.2};
  KeptFloors floors(kIdentity);
  floors.add("layer", kept, golden(), /*seconds=*/1);
  floors.write();
}

bool is_kept() { return KeptFloors(kIdentity).find("layer", golden()).has_value(); }

class KeptFloorsTest : public ::testing::Test {
 protected:
  void use(const std::string& cache) { ::setenv("XDG_CACHE_HOME", (folder.path() / cache).c_str(), 1); }
  fs::path in(const std::string& cache) const { return folder.path() / cache / "pycandle"; }
  TemporaryFolder folder;
};

TEST_F(KeptFloorsTest, AreFoundAgainByTheUserWhoseTheyAre) {
  use("mine");
  EXPECT_FALSE(is_kept());
  keep_one();
  EXPECT_TRUE(is_kept());
  const fs::perms others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(in("mine") / "floors.secret").permissions() & others, fs::perms::none);
}

// Its checksum is right for who made it: only the secret tells.
TEST_F(KeptFloorsTest, OfAnotherCacheAreNotTrusted) {
  use("theirs");
  keep_one();
  use("mine");
  EXPECT_FALSE(is_kept());
  fs::copy(in("theirs") / "floors", in("mine") / "floors", fs::copy_options::recursive);
  EXPECT_FALSE(is_kept());
  keep_one();
  EXPECT_TRUE(is_kept()) << "written again";
}

TEST_F(KeptFloorsTest, UnderASecretThatOthersCanReadAreNotTrusted) {
  use("mine");
  keep_one();
  ASSERT_EQ(::chmod((in("mine") / "floors.secret").c_str(), 0644), 0);
  EXPECT_FALSE(is_kept());
  EXPECT_EQ(fs::status(in("mine") / "floors.secret").permissions() & fs::perms::others_read, fs::perms::none) << "a new one";
  keep_one();
  EXPECT_TRUE(is_kept());
}

TEST_F(KeptFloorsTest, AreNotKeptWithoutAPlaceForTheSecret) {
  write_text(folder.path() / "a_file", "no folder");
  use("a_file");
  keep_one();
  EXPECT_FALSE(is_kept());
}

}  // namespace
}  // namespace pycandle
