// checkpoint.json: what is printed is read back, and nothing else is accepted.
#include "ir/checkpoint/CheckpointFolder.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <filesystem>
#include <fstream>

namespace pipec {
namespace {

CheckpointText sampleCheckpoint() {
  CheckpointText text;
  text.toolVersion = "0.1.0";
  text.torchVersion = "2.11.0";
  text.step = 12;
  text.seed = ~uint64_t(0);
  text.skippedInARow = 2;
  text.settings = {{"optimizer", "adam,lr=0.1"}, {"freeze", "a.*,\"b\""}};
  text.program = {{"epoch", "3"}, {"", "no name"}};
  CheckpointEntry weight;
  weight.name = "a.weight";
  weight.otherNames = {"b.weight"};
  weight.dtype = "float32";
  weight.shape = {4, 0, 3};
  weight.optimizer = {"exp_avg", "step"};
  CheckpointEntry scalar = weight;
  scalar.name = "scale";
  scalar.otherNames.clear();
  scalar.kind = AttributeKind::Buffer;
  scalar.used = false;
  scalar.shape.clear();
  scalar.optimizer.clear();
  CheckpointEntry value;
  value.name = "counts";
  value.kind = AttributeKind::Value;
  text.files = {{"stage-0.pt", {weight, scalar}}, {"stage-1.pt", {value}}, {"stage-2.pt", {}}};
  return text;
}

TEST(CheckpointText, PrintsAndParses) {
  for (const CheckpointText &text : {sampleCheckpoint(), [] {
                                       CheckpointText empty = sampleCheckpoint();
                                       empty.files.clear();
                                       empty.settings.clear();
                                       empty.program.clear();
                                       empty.seed = 0;
                                       return empty;
                                     }()}) {
    std::vector<std::string> warnings;
    llvm::Expected<CheckpointText> read = checkpointFromJson(toJson(text), warnings);
    ASSERT_TRUE(bool(read)) << describe(read.takeError()).message;
    EXPECT_TRUE(*read == text);
    EXPECT_EQ(toJson(*read), toJson(text));
    EXPECT_TRUE(warnings.empty());
  }
}

/// Every prefix, and every text with one byte changed: an error, or a description that prints.
TEST(CheckpointText, SurvivesDamage) {
  const std::string good = toJson(sampleCheckpoint());
  std::vector<std::string> warnings;
  for (size_t length = 0; length + 1 < good.size(); ++length) {
    llvm::Expected<CheckpointText> read =
        checkpointFromJson(llvm::StringRef(good).take_front(length), warnings);
    EXPECT_FALSE(bool(read)) << length;
    llvm::consumeError(read.takeError());
  }
  for (size_t at = 0; at < good.size(); ++at)
    for (char byte : {'\0', '"', '9', '-', 'e', '{', '\xff'}) {
      std::string bad = good;
      bad[at] = byte;
      llvm::Expected<CheckpointText> read = checkpointFromJson(bad, warnings);
      if (read) {
        EXPECT_FALSE(toJson(*read).empty());
      }
      llvm::consumeError(read.takeError());
    }
}

/// A checkpoint of files that hold no values: none is read here.
void writeSampleCheckpoint(const std::string &directory, int64_t step, int64_t keep) {
  CheckpointText text = sampleCheckpoint();
  text.step = step;
  llvm::Expected<CheckpointWriter> writer = CheckpointWriter::create(directory, step);
  ASSERT_TRUE(bool(writer)) << describe(writer.takeError()).message;
  for (const CheckpointFile &file : text.files)
    std::ofstream(writer->directory() + "/" + file.name) << file.name;
  llvm::Error error = writer->finish(text, keep);
  ASSERT_FALSE(bool(error)) << describe(std::move(error)).message;
}

TEST(CheckpointFolder, AStepOfAnotherFolderIsRefused) {
  TempDir directory;
  writeSampleCheckpoint(directory.path("c"), 12, 0);
  const std::string moved = checkpointPath(directory.path("c"), 13);
  std::filesystem::rename(checkpointPath(directory.path("c"), 12), moved);
  EXPECT_TRUE(failedWith(openCheckpoint(moved), ExitCode::BadArtifact,
                         "checkpoint.json: step: expected 13, that of its folder, got 12"));
}

/// Every byte of every file changed, and every file cut off at every byte.
TEST(CheckpointFolder, FindsEveryChangedByte) {
  TempDir directory;
  writeSampleCheckpoint(directory.path("c"), 12, 0);
  const std::string path = checkpointPath(directory.path("c"), 12);
  llvm::Expected<OpenedCheckpoint> good = openCheckpoint(path);
  ASSERT_TRUE(bool(good)) << describe(good.takeError()).message;
  EXPECT_EQ(good->text.step, 12);
  for (const char *name : {"MANIFEST", "checkpoint.json", "stage-0.pt"}) {
    std::ifstream in(path + "/" + name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    auto expectRefused = [&](const std::string &content) {
      std::ofstream(path + "/" + name, std::ios::binary) << content;
      llvm::Expected<OpenedCheckpoint> opened = openCheckpoint(path);
      EXPECT_FALSE(bool(opened)) << name;
      EXPECT_EQ(describe(opened.takeError()).code, ExitCode::BadArtifact);
    };
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      expectRefused(changed);
      expectRefused(bytes.substr(0, at));
    }
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  }
}

TEST(CheckpointFolder, OneWriterAtATime) {
  TempDir directory;
  llvm::Expected<CheckpointWriter> first = CheckpointWriter::create(directory.path("c"), 1);
  ASSERT_TRUE(bool(first));
  llvm::Expected<CheckpointWriter> second = CheckpointWriter::create(directory.path("c"), 2);
  ASSERT_FALSE(bool(second));
  const ErrorText text = describe(second.takeError());
  EXPECT_EQ(text.code, ExitCode::Other);
  EXPECT_NE(text.message.find("another process writes a checkpoint there"), std::string::npos);
}

/// Later steps than that of a good checkpoint which was just written are damaged, or of another
/// run: they do not take its place.
TEST(CheckpointFolder, RemovesWhatIsOld) {
  TempDir directory;
  std::filesystem::create_directories(directory.path("c/.step-7.tmp-4711"));
  std::filesystem::create_directories(directory.path("c/step-09"));
  for (int64_t step : {1, 2, 10, 3})
    writeSampleCheckpoint(directory.path("c"), step, step == 3 ? 2 : 0);
  llvm::Expected<std::vector<int64_t>> steps = checkpointSteps(directory.path("c"));
  ASSERT_TRUE(bool(steps));
  EXPECT_EQ(*steps, (std::vector<int64_t>{2, 3, 10}));
  EXPECT_FALSE(std::filesystem::exists(directory.path("c/.step-7.tmp-4711")));
  EXPECT_TRUE(std::filesystem::exists(directory.path("c/step-09"))); // not a name of ours
}

} // namespace
} // namespace pipec
