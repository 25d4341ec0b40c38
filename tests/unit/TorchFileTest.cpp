// Models read through a mapping.
#include "ir/torchfile/TorchFile.h"

#include "ir/support/Llvm.h"
#include "ir/values/ValueFiles.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/ir/ir.h>

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace pipec;

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A zip archive as PyTorch lays it out; records named in `compressed` are deflated.
void writeArchive(const std::string &path, const Entries &entries,
                  const std::string &compressed = "") {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  for (const auto &[name, bytes] : entries)
    writer.writeRecord(name, bytes.data(), bytes.size(), name == compressed);
  writer.writeEndOfFile();
}

Entries entriesOf(const std::string &path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  Entries entries;
  for (const std::string &name : reader.getAllRecords()) {
    if (name == "version" || name == ".data/version" || name == ".data/serialization_id")
      continue;
    auto [data, size] = reader.getRecord(name);
    entries.emplace_back(name, std::string(static_cast<const char *>(data.get()), size));
  }
  return entries;
}

/// forward(x) = x + weight, with a constant tensor and a large weight.
void saveModel(const std::string &path) {
  torch::jit::Module module("__torch__.Tiny");
  module.register_parameter("weight", at::arange(1000, at::kFloat), false);
  module.define("def forward(self, x):\n    y = x + self.weight\n    return y * 2\n");
  module.save(path);
}

ErrorText loadError(const std::string &path) {
  auto module = loadMapped(path);
  EXPECT_FALSE(static_cast<bool>(module)) << path;
  return module ? ErrorText{ExitCode::Success, "", ""} : describe(module.takeError());
}

at::Tensor run(torch::jit::Module module) {
  return module.get_method("forward")({at::ones({1000})}).toTensor();
}

} // namespace

TEST(TorchFile, WeightsAreWritableViewsOfTheFile) {
  TempDir dir;
  std::string path = dir.path("m.pt");
  saveModel(path);
  std::string before = readFile(path);
  auto module = loadMapped(path);
  ASSERT_TRUE(static_cast<bool>(module));
  at::Tensor weight = module->attr("weight").toTensor();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.data_ptr()) % 64, 0u);
  size_t at = before.find(std::string(static_cast<const char *>(weight.data_ptr()), 4000));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(at % 4096, reinterpret_cast<uintptr_t>(weight.data_ptr()) % 4096)
      << "same offset in its page: a mapping, not a copy";

  {
    at::NoGradGuard noGrad;
    weight.add_(1);
  }
  EXPECT_EQ(run(*module)[5].item<float>(), 14.0f) << "(1 + 5 + 1) * 2";
  EXPECT_EQ(readFile(path), before) << "writes are private";
}

TEST(TorchFile, TensorOutlivesModuleAndFileName) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  at::Tensor weight;
  {
    auto module = loadMapped(dir.path("m.pt"));
    ASSERT_TRUE(static_cast<bool>(module));
    weight = module->attr("weight").toTensor();
  }
  ::unlink(dir.path("m.pt").c_str());
  EXPECT_EQ(weight[999].item<float>(), 999.0f);
}

TEST(TorchFile, CompressedRecordsAreCopied) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  writeArchive(dir.path("z.pt"), entriesOf(dir.path("m.pt")), "data/0");
  ASSERT_LT(readFile(dir.path("z.pt")).size(), readFile(dir.path("m.pt")).size());
  auto module = loadMapped(dir.path("z.pt"));
  ASSERT_TRUE(static_cast<bool>(module));
  EXPECT_EQ(run(*module)[5].item<float>(), 12.0f);
}

TEST(TorchFile, NodesKnowTheAuthorsLines) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  auto module = loadMapped(dir.path("m.pt"));
  ASSERT_TRUE(static_cast<bool>(module));
  auto graph = module->get_method("forward").graph();
  std::string lines;
  for (torch::jit::Node *node : graph->nodes())
    if (auto original = node->sourceRange().findSourceRangeThatGenerated())
      lines += original->str();
  EXPECT_NE(lines.find("y = x + self.weight"), std::string::npos) << lines;
}

TEST(TorchFile, DamagedLinesCostOnlyTheLines) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  Entries entries = entriesOf(dir.path("m.pt"));
  size_t damaged = 0;
  for (auto &[name, bytes] : entries)
    if (endsWith(name, ".debug_pkl")) {
      bytes.resize(bytes.size() / 2);
      ++damaged;
    }
  ASSERT_GT(damaged, 0u);
  writeArchive(dir.path("d.pt"), entries);
  auto module = loadMapped(dir.path("d.pt"));
  ASSERT_TRUE(static_cast<bool>(module));
  for (torch::jit::Node *node : module->get_method("forward").graph()->nodes())
    EXPECT_FALSE(node->sourceRange().findSourceRangeThatGenerated().has_value());
}

TEST(TorchFile, OtherFilesAreRefusedByKind) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  auto refused = [&](const std::string &name, ExitCode code, const std::string &part) {
    ErrorText error = loadError(dir.path(name));
    EXPECT_EQ(error.code, code) << name;
    EXPECT_NE(error.message.find(dir.path(name) + ": "), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    return error.help;
  };
  refused("none.pt", ExitCode::IO, "no such file or directory");
  refused("", ExitCode::Unreadable, "got a directory");
  writeFile(dir.path("empty.pt"), "");
  refused("empty.pt", ExitCode::Unreadable, "the file is empty");
  writeFile(dir.path("text.pt"), "hello");
  refused("text.pt", ExitCode::Unreadable, "expected a TorchScript model, got text");
  writeFile(dir.path("old.pt"), "\x80\x02\x8a\nl\xfc\x9c"
                                "F");
  refused("old.pt", ExitCode::Unreadable, "got a pickle");
  ASSERT_FALSE(bool(writeValue(dir.path("weights.pt"), at::ones({2}))));
  EXPECT_NE(
      refused("weights.pt", ExitCode::Unreadable, "got values or weights that torch.save wrote")
          .find("torch.jit.script"),
      std::string::npos);
  writeArchive(dir.path("other.pt"), {{"notes.txt", "x"}});
  refused("other.pt", ExitCode::Unreadable,
          "got a zip archive of something else, with other/notes.txt");
  ::mkfifo(dir.path("fifo").c_str(), 0600);
  refused("fifo", ExitCode::Unreadable, "got a device or pipe");
}

TEST(TorchFile, EveryTruncationIsAnError) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  std::string bytes = readFile(dir.path("m.pt"));
  for (size_t n = 1; n < bytes.size(); n += 97) {
    writeFile(dir.path("t.pt"), bytes.substr(0, n));
    EXPECT_EQ(loadError(dir.path("t.pt")).code, ExitCode::Unreadable) << n;
  }
}

TEST(TorchFile, ShortWeightRecordIsFoundBeforeAnyoneReadsBeyondIt) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  Entries entries = entriesOf(dir.path("m.pt"));
  for (auto &[name, bytes] : entries)
    if (name == "data/0")
      bytes.resize(100);
  writeArchive(dir.path("s.pt"), entries);
  EXPECT_NE(
      loadError(dir.path("s.pt")).message.find("a tensor needs 4000 bytes, its record has 100"),
      std::string::npos);
}

TEST(TorchFile, UnknownOperatorNamesItAndTheOption) {
  TempDir dir;
  saveModel(dir.path("m.pt"));
  Entries entries = entriesOf(dir.path("m.pt"));
  for (auto &[name, bytes] : entries)
    if (size_t at = bytes.find("torch.add"); endsWith(name, ".py") && at != std::string::npos)
      bytes.replace(at, strlen("torch.add"), "ops.mylib.add");
  writeArchive(dir.path("u.pt"), entries);
  ErrorText error = loadError(dir.path("u.pt"));
  EXPECT_EQ(error.code, ExitCode::Unreadable);
  EXPECT_NE(error.message.find("uses the operator mylib::add, which is not registered"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.help.find("--load-library"), std::string::npos);
}
