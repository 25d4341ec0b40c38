// The compiler's public face: compile first, save later.
#include "compiler/Compiler.h"

#include "ir/artifact/ArtifactReader.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace pipec {
namespace {

std::string mlp() { return std::string(std::getenv("PIPEC_MODELS")) + "/mlp.pt"; }

CompileOptions twoStages() {
  CompileOptions options;
  options.cuts.push_back(AtModule{"layers.8"});
  return options;
}

TEST(Compiler, SavesWhereverAskedAndWhatCompileWouldHaveWritten) {
  TempDir dir, scratch;
  ::setenv("TMPDIR", scratch.path("").c_str(), 1);
  Compiler compiler = take(Compiler::load(mlp()));
  {
    Compiled compiled = take(compiler.compile(twoStages()));
    EXPECT_EQ(compiled.report().plan.stages.size(), 2u);
    EXPECT_EQ(scratch.entries().size(), 1u);
    EXPECT_TRUE(dir.entries().empty());
    EXPECT_TRUE(succeeded(compiled.save(dir.path("a.pipe"))));
    EXPECT_TRUE(succeeded(compiled.save(dir.path("b.pipe"))));
    EXPECT_TRUE(failedWith(compiled.save(dir.path("a.pipe")), ExitCode::Usage, "exists already"));
    EXPECT_TRUE(succeeded(compiled.save(dir.path("a.pipe"), /*force=*/true)));
    EXPECT_TRUE(
        failedWith(compiled.save(dir.path("nowhere/c.pipe")), ExitCode::IO, "cannot write into"));
  }
  EXPECT_TRUE(scratch.entries().empty());
  EXPECT_TRUE(succeeded(compiler.compile(twoStages(), dir.path("c.pipe"))));
  EXPECT_EQ(dir.entries(), (std::vector<std::string>{"a.pipe", "b.pipe", "c.pipe"}));
  std::string id = take(openArtifact(dir.path("c.pipe"))).id;
  EXPECT_EQ(take(openArtifact(dir.path("a.pipe"))).id, id);
  EXPECT_EQ(take(openArtifact(dir.path("b.pipe"))).id, id);
  ::unsetenv("TMPDIR");
}

TEST(Compiler, SavesOnlyWhatTheCompileProved) {
  TempDir dir, scratch;
  ::setenv("TMPDIR", scratch.path("").c_str(), 1);
  Compiler compiler = take(Compiler::load(mlp()));
  Compiled compiled = take(compiler.compile(twoStages()));
  ::unsetenv("TMPDIR");
  ASSERT_EQ(scratch.entries().size(), 1u);
  const std::string files = scratch.path(scratch.entries().front());
  std::ofstream(files + "/plan.json", std::ios::app) << "\n";
  EXPECT_TRUE(failedWith(compiled.save(dir.path("a.pipe")), ExitCode::IO,
                         "a.pipe: the copies differ from the files in"));
  std::filesystem::remove(files + "/MANIFEST");
  EXPECT_TRUE(failedWith(compiled.save(dir.path("a.pipe")), ExitCode::IO,
                         "MANIFEST: no such file or directory"));
  EXPECT_TRUE(dir.entries().empty());
}

TEST(Compiler, AFailedCompileLeavesNothing) {
  TempDir dir;
  Compiler compiler = take(Compiler::load(mlp()));
  CompileOptions options = twoStages();
  options.keepEval = {"layer"};
  EXPECT_TRUE(failedWith(compiler.compile(options, dir.path("a.pipe")), ExitCode::Usage,
                         "--keep-eval: expected a module of the model, got layer"));
  EXPECT_TRUE(dir.entries().empty());
}

} // namespace
} // namespace pipec
