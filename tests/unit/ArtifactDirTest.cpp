// The artifact directory: written whole or not at all, every class of damage found, nothing foreign
// deleted.

#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/ArtifactWriter.h"
#include "ir/artifact/Manifest.h"
#include "ir/plan/PlanToJson.h"
#include "ir/support/Sha256.h"
#include "ir/support/UnfinishedOutputs.h"
#include "tests/support/Matchers.h"
#include "tests/support/SamplePlan.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec {
namespace {

namespace fs = std::filesystem;

class ArtifactDirTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "pipec-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string &name) const { return (root_ / name).string(); }

  static void put(const std::string &file, const std::string &text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string get(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static llvm::Error fill(ArtifactWriter &writer, const std::string &stage = "weights of stage ") {
    Plan plan = chainPlan({0, 1});
    if (llvm::Error error = writer.write("plan.json", toJson(plan)))
      return error;
    for (size_t s = 0; s < 2; ++s)
      if (llvm::Error error = writer.write(plan.stages[s].file, stage + std::to_string(s)))
        return error;
    if (llvm::Error error = writer.write("schedule.csv", "0F0\n1F0\n"))
      return error;
    return writer.writeManifest();
  }

  /// A published artifact; returns its path.
  std::string make(const std::string &name = "m.pipe", bool force = false,
                   const std::string &stage = "weights of stage ") {
    llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path(name), force);
    EXPECT_TRUE(succeeded(writer));
    EXPECT_TRUE(succeeded(fill(*writer, stage)));
    EXPECT_TRUE(succeeded(writer->publish()));
    return path(name);
  }

  /// MANIFEST again over what is there now, as an attacker or a careless hand would.
  static void resign(const std::string &artifact) {
    Manifest manifest;
    for (const auto &entry : fs::directory_iterator(artifact))
      if (entry.path().filename() != kManifestName)
        manifest[entry.path().filename().string()] = sha256Hex(get(entry.path().string()));
    put(artifact + "/MANIFEST", toString(manifest));
  }

  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto &entry : fs::directory_iterator(root_))
      result.insert(entry.path().filename().string());
    return result;
  }

  static std::vector<std::string> codes(const std::string &artifact) {
    std::vector<std::string> result;
    for (const Finding &finding : checkIntegrity(artifact))
      result.push_back(finding.code + " " + finding.where);
    return result;
  }

  fs::path root_;
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(ArtifactDirTest, writesWhatSha256sumReads) {
  std::string artifact = make();
  EXPECT_EQ(names(), std::set<std::string>{"m.pipe"});
  EXPECT_EQ(get(artifact + "/MANIFEST"), sha256Hex(get(artifact + "/plan.json")) + "  plan.json\n" +
                                             sha256Hex("0F0\n1F0\n") + "  schedule.csv\n" +
                                             sha256Hex("weights of stage 0") + "  stage-0.pt\n" +
                                             sha256Hex("weights of stage 1") + "  stage-1.pt\n");
  EXPECT_EQ(std::system(("cd " + artifact + " && sha256sum --strict --quiet -c MANIFEST").c_str()),
            0);
}

TEST_F(ArtifactDirTest, whatIsSettledEarlyIsInTheManifestAllTheSame) {
  llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
  ASSERT_TRUE(succeeded(writer));
  const std::string large(size_t(5) << 20, 'w');
  put(writer->directory() + "/stage-0.pt", large); // past the writer, as LibTorch does
  writer->settle("stage-0.pt", sha256Hex(large));
  ASSERT_TRUE(succeeded(writer->write("schedule.csv", "0F0\n")));
  ASSERT_TRUE(succeeded(writer->writeManifest()));
  ASSERT_TRUE(succeeded(writer->publish()));
  EXPECT_EQ(get(path("m.pipe/MANIFEST")),
            sha256Hex("0F0\n") + "  schedule.csv\n" + sha256Hex(large) + "  stage-0.pt\n");
}

TEST_F(ArtifactDirTest, aSettledFileThatIsNoFileStopsTheManifest) {
  llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
  ASSERT_TRUE(succeeded(writer));
  fs::create_directory(writer->directory() + "/stage-0.pt");
  writer->settle("stage-0.pt", sha256Hex(""));
  EXPECT_TRUE(failedWith(writer->writeManifest(), ExitCode::BadArtifact, "a directory"));
  llvm::Expected<ArtifactWriter> unused = ArtifactWriter::create(path("n.pipe"), false);
  ASSERT_TRUE(succeeded(unused));
  unused->settle("absent", sha256Hex("")); // its error is dropped because no manifest is written
}

TEST_F(ArtifactDirTest, opens) {
  llvm::Expected<Artifact> artifact = openArtifact(make());
  ASSERT_TRUE(succeeded(artifact));
  EXPECT_EQ(artifact->plan, chainPlan({0, 1}));
  EXPECT_EQ(artifact->scheduleCsv, "0F0\n1F0\n");
  EXPECT_EQ(artifact->id, sha256Hex(get(path("m.pipe/MANIFEST"))));
  EXPECT_EQ(artifact->stagePath(1), path("m.pipe") + "/stage-1.pt");
  EXPECT_THAT(artifact->warnings, IsEmpty());
}

TEST_F(ArtifactDirTest, sha256KnownAnswers) {
  EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ArtifactDirTest, leavesNothingBehindUnlessPublished) {
  {
    llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
    ASSERT_TRUE(succeeded(writer));
    ASSERT_TRUE(succeeded(fill(*writer)));
    EXPECT_EQ(names().size(), 1u); // the temporary directory
    ArtifactWriter moved = std::move(*writer);
    EXPECT_TRUE(succeeded(moved.write("more", "x")));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(ArtifactDirTest, existingTargetNeedsForce) {
  std::string artifact = make();
  EXPECT_TRUE(failedWith(ArtifactWriter::create(artifact, false), ExitCode::Usage, "pass --force"));
  EXPECT_TRUE(failedWith(ArtifactWriter::create(artifact + "/", false), ExitCode::Usage,
                         "m.pipe: exists already"));
  make("m.pipe", true, "new weights ");
  EXPECT_EQ(get(artifact + "/stage-0.pt"), "new weights 0");
  EXPECT_EQ(names(), std::set<std::string>{"m.pipe"});
}

TEST_F(ArtifactDirTest, targetThatAppearsMeanwhileIsKept) {
  llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
  ASSERT_TRUE(succeeded(writer));
  ASSERT_TRUE(succeeded(fill(*writer)));
  fs::create_directory(path("m.pipe")); // empty: a plain rename would replace it
  EXPECT_TRUE(failedWith(writer->publish(), ExitCode::Usage, "it has no MANIFEST"));
  EXPECT_TRUE(fs::is_directory(path("m.pipe")));
  EXPECT_TRUE(fs::is_empty(path("m.pipe")));
}

TEST_F(ArtifactDirTest, forceDeletesOnlyArtifacts) {
  auto refused = [&](const std::string &why) {
    return failedWith(ArtifactWriter::create(path("m.pipe"), true), ExitCode::Usage,
                      "exists and is not a pipec artifact: " + why);
  };
  put(path("m.pipe"), "a file");
  EXPECT_TRUE(refused("expected a directory"));
  fs::remove(path("m.pipe"));
  fs::create_directory(path("m.pipe"));
  EXPECT_TRUE(refused("it has no MANIFEST"));
  put(path("m.pipe/MANIFEST"), "x");
  EXPECT_TRUE(refused("it has no plan.json"));
  fs::remove_all(path("m.pipe"));
  make();
  put(path("m.pipe/thesis.txt"), "x");
  EXPECT_TRUE(refused("it holds thesis.txt"));
  fs::remove(path("m.pipe/thesis.txt"));
  fs::create_directory(path("m.pipe/stage-7.pt"));
  EXPECT_TRUE(refused("it holds stage-7.pt"));
  fs::remove(path("m.pipe/stage-7.pt"));
  fs::create_directory_symlink(path("m.pipe"), path("link"));
  EXPECT_TRUE(failedWith(ArtifactWriter::create(path("link"), true), ExitCode::Usage,
                         "expected a directory, got a symbolic link"));
  // A damaged one is still ours.
  put(path("m.pipe/MANIFEST"), "damaged");
  fs::remove(path("m.pipe/stage-0.pt"));
  make("m.pipe", true);
  EXPECT_THAT(codes(path("m.pipe")), IsEmpty());
}

TEST_F(ArtifactDirTest, unwritableParentIsNamed) {
  EXPECT_TRUE(failedWith(ArtifactWriter::create(path("no/m.pipe"), false), ExitCode::IO,
                         "create the directory first"));
  EXPECT_TRUE(failedWith(ArtifactWriter::create("/proc/m.pipe", false), ExitCode::IO,
                         "/proc/m.pipe: cannot write into /proc"));
  for (const char *name : {"", "/", ".", ".."})
    EXPECT_TRUE(failedWith(ArtifactWriter::create(name, false), ExitCode::Usage,
                           "expected the name of a directory"))
        << name;
}

TEST_F(ArtifactDirTest, writeRefusesPathsAndSecondWrites) {
  llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
  ASSERT_TRUE(succeeded(writer));
  for (const char *name : {"", ".", "..", "a/b", "../x", "a\nb", "a\\b", "MANIFEST"})
    EXPECT_TRUE(failedWith(writer->write(name, "x"), ExitCode::Internal, "cannot be the name"))
        << name;
  EXPECT_TRUE(succeeded(writer->write("a", "x")));
  EXPECT_TRUE(failedWith(writer->write("a", "x"), ExitCode::IO, "a: cannot create"));
  fs::create_symlink("/etc/passwd", writer->directory() + "/b");
  EXPECT_TRUE(failedWith(writer->writeManifest(), ExitCode::BadArtifact,
                         "b: expected a regular file, got a symbolic link"));
}

/// A file limit stands for a full disk: write() fails half way and nothing of the artifact is left.
TEST_F(ArtifactDirTest, failedWriteLeavesNothing) {
  EXPECT_EXIT(
      {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit;
        limit.rlim_cur = limit.rlim_max = 1000;
        setrlimit(RLIMIT_FSIZE, &limit);
        bool ok = false;
        {
          llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
          ok = failedWith(writer->write("stage-0.pt", std::string(5000, 'x')), ExitCode::IO,
                          "stage-0.pt: cannot write: file too large");
        }
        _exit(ok && names().empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ArtifactDirTest, findsEveryKindOfDamage) {
  struct Case {
    const char *name;
    void (*damage)(const std::string &);
    std::vector<std::string> expected;
  };
  const Case cases[] = {
      {"missing file",
       [](const std::string &d) { fs::remove(d + "/stage-1.pt"); },
       {"missing-file stage-1.pt"}},
      {"extra file", [](const std::string &d) { put(d + "/notes", "x"); }, {"extra-file notes"}},
      {"extra directory",
       [](const std::string &d) { fs::create_directory(d + "/sub"); },
       {"extra-file sub"}},
      {"changed byte",
       [](const std::string &d) { put(d + "/stage-0.pt", "weights of stagE 0"); },
       {"changed-file stage-0.pt"}},
      {"longer",
       [](const std::string &d) { put(d + "/stage-0.pt", "weights of stage 0x"); },
       {"changed-file stage-0.pt"}},
      {"empty",
       [](const std::string &d) { put(d + "/stage-0.pt", ""); },
       {"changed-file stage-0.pt"}},
      {"swapped stages",
       [](const std::string &d) {
         fs::rename(d + "/stage-0.pt", d + "/x");
         fs::rename(d + "/stage-1.pt", d + "/stage-0.pt");
         fs::rename(d + "/x", d + "/stage-1.pt");
       },
       {"changed-file stage-0.pt", "changed-file stage-1.pt"}},
      {"edited plan",
       [](const std::string &d) { put(d + "/plan.json", get(d + "/plan.json") + " "); },
       {"changed-file plan.json"}},
      {"file is a directory",
       [](const std::string &d) {
         fs::remove(d + "/stage-0.pt");
         fs::create_directory(d + "/stage-0.pt");
       },
       {"not-a-file stage-0.pt"}},
      {"file is a link",
       [](const std::string &d) {
         fs::rename(d + "/stage-0.pt", d + "/../real");
         fs::create_symlink("../real", d + "/stage-0.pt");
       },
       {"not-a-file stage-0.pt"}},
      {"file has two names",
       [](const std::string &d) { fs::create_hard_link(d + "/stage-0.pt", d + "/../other"); },
       {"not-a-file stage-0.pt"}},
      {"file is a pipe",
       [](const std::string &d) {
         fs::remove(d + "/stage-0.pt");
         ASSERT_EQ(mkfifo((d + "/stage-0.pt").c_str(), 0600), 0);
       },
       {"not-a-file stage-0.pt"}},
      {"no manifest",
       [](const std::string &d) { fs::remove(d + "/MANIFEST"); },
       {"no-artifact MANIFEST"}},
      {"manifest is a link",
       [](const std::string &d) {
         fs::rename(d + "/MANIFEST", d + "/../real");
         fs::create_symlink("../real", d + "/MANIFEST");
       },
       {"not-a-file MANIFEST"}},
      {"manifest too large",
       [](const std::string &d) { put(d + "/MANIFEST", std::string((1 << 20) + 1, 'a')); },
       {"too-large MANIFEST"}},
      {"manifest cut",
       [](const std::string &d) { fs::resize_file(d + "/MANIFEST", 100); },
       {"bad-manifest MANIFEST"}},
      {"two at once",
       [](const std::string &d) {
         fs::remove(d + "/plan.json");
         put(d + "/notes", "x");
       },
       {"missing-file plan.json", "extra-file notes"}},
  };
  for (const Case &c : cases) {
    std::string artifact = make();
    ASSERT_THAT(codes(artifact), IsEmpty());
    c.damage(artifact);
    EXPECT_THAT(codes(artifact), testing::ElementsAreArray(c.expected)) << c.name;
    std::string file = c.expected[0].substr(c.expected[0].find(' ') + 1);
    EXPECT_TRUE(failedWith(openArtifact(artifact), ExitCode::BadArtifact, file)) << c.name;
    fs::remove_all(artifact);
    fs::remove_all(path("real"));
    fs::remove_all(path("other"));
  }
}

TEST_F(ArtifactDirTest, swappedStagesAreRecognised) {
  std::string artifact = make();
  put(artifact + "/stage-0.pt", "weights of stage 1");
  std::vector<Finding> findings = checkIntegrity(artifact);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].message, "stage-0.pt: changed: it has the contents of stage-1.pt");
}

TEST_F(ArtifactDirTest, whatIsNoArtifact) {
  EXPECT_TRUE(failedWith(openArtifact(path("absent")), ExitCode::IO, "no such file or directory"));
  put(path("model.pt"), "x");
  EXPECT_TRUE(failedWith(openArtifact(path("model.pt")), ExitCode::Usage,
                         "expected an artifact (a directory), got text"));
  EXPECT_TRUE(failedWith(openArtifact(root_.string()), ExitCode::BadArtifact, "MANIFEST: missing"));
}

TEST_F(ArtifactDirTest, thePlanAloneIsReadWithoutTheStages) {
  std::string artifact = make();
  put(artifact + "/stage-0.pt", "changed");
  EXPECT_TRUE(succeeded(openArtifactPlan(artifact)));
  put(artifact + "/schedule.csv", "0F0,0F1\n1F0\n");
  EXPECT_TRUE(
      failedWith(openArtifactPlan(artifact), ExitCode::BadArtifact, "schedule.csv: changed"));
  put(artifact + "/plan.json", get(artifact + "/plan.json") + " ");
  EXPECT_TRUE(failedWith(openArtifactPlan(artifact), ExitCode::BadArtifact, "plan.json: changed"));
  EXPECT_TRUE(failedWith(openArtifactPlan(path("absent")), ExitCode::IO, "absent"));
}

TEST_F(ArtifactDirTest, everySingleByteIsGuarded) {
  std::string artifact = make();
  for (const char *name : {"MANIFEST", "plan.json", "schedule.csv", "stage-0.pt"}) {
    std::string file = artifact + "/" + name, original = get(file);
    size_t step = std::max<size_t>(1, original.size() / 50);
    for (size_t at = 0; at < original.size(); at += step) {
      std::string damaged = original;
      damaged[at] ^= 0x01;
      put(file, damaged);
      EXPECT_FALSE(checkIntegrity(artifact).empty()) << name << " " << at;
    }
    put(file, original);
  }
  EXPECT_THAT(codes(artifact), IsEmpty());
}

TEST_F(ArtifactDirTest, resignedEditsOfThePlanAreJudgedByThePlan) {
  auto edit = [&](const std::string &from, const std::string &to) {
    std::string artifact = make("m.pipe", fs::exists(path("m.pipe")));
    std::string text = get(artifact + "/plan.json");
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    put(artifact + "/plan.json", text.replace(at, from.size(), to));
    resign(artifact);
    return openArtifact(artifact);
  };
  EXPECT_TRUE(failedWith(edit("stage-1.pt", "stage-9.pt"), ExitCode::BadArtifact,
                         "stage 1 is in stage-9.pt, which MANIFEST does not list"));
  EXPECT_TRUE(failedWith(edit("stage-1.pt", "../../etc/passwd"), ExitCode::BadArtifact,
                         "is not a plain file name"));
  EXPECT_TRUE(failedWith(edit("\"major\": 1", "\"major\": 2"), ExitCode::Version,
                         "m.pipe: plan.json: format version"));
  EXPECT_TRUE(failedWith(edit("\"stage\": 1", "\"stage\": 7"), ExitCode::BadArtifact,
                         "m.pipe: plan.json: "));
  std::string artifact = make("m.pipe", true);
  fs::remove(artifact + "/schedule.csv");
  resign(artifact);
  EXPECT_TRUE(failedWith(openArtifact(artifact), ExitCode::BadArtifact,
                         "schedule.csv: MANIFEST does not list it"));
}

TEST_F(ArtifactDirTest, abandonedWritersAreGoneForGood) {
  EXPECT_EXIT(
      {
        llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("m.pipe"), false);
        bool ok = bool(succeeded(fill(*writer)));
        abandonUnfinishedOutputs();
        ok = ok && names().empty() &&
             bool(failedWith(writer->publish(), ExitCode::Other, "the process is ending")) &&
             bool(failedWith(ArtifactWriter::create(path("n.pipe"), false), ExitCode::Other,
                             "the process is ending")) &&
             names().empty();
        _exit(ok ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ArtifactDirTest, whatIsPublishedLastCannotBeStopped) {
  EXPECT_EXIT(
      {
        auto publish = [&](const char *name, bool isLast) {
          llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path(name), false);
          return bool(succeeded(fill(*writer))) && bool(succeeded(writer->publish(isLast)));
        };
        bool ok = publish("m.pipe", /*isLast=*/true) && !stopPublications();
        {
          llvm::Expected<ArtifactWriter> unfinished = ArtifactWriter::create(path("n.pipe"), false);
          ok = ok && bool(succeeded(unfinished)) && stopPublications();
        }
        _exit(ok && names() == std::set<std::string>{"m.pipe"} ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        llvm::Expected<ArtifactWriter> writer = ArtifactWriter::create(path("c"), false);
        bool ok = bool(succeeded(fill(*writer))) && bool(succeeded(writer->publish()));
        _exit(ok && stopPublications() ? 0 : 1); // as a checkpoint, after which work goes on
      },
      testing::ExitedWithCode(0), "");
}

TEST(Manifest, roundTripsAndIsStrict) {
  std::string a(64, 'a'), b(64, 'b');
  std::string text = a + "  a\n" + b + "  b c\n";
  llvm::Expected<Manifest> manifest = manifestFromText(text);
  ASSERT_TRUE(succeeded(manifest));
  EXPECT_EQ(toString(*manifest), text);
  struct Case {
    std::string text;
    const char *message;
  };
  const Case cases[] = {
      {"", "empty file"},
      {a + "  a", "line 1: ends without a new line"},
      {a + " a\n", "line 1: expected 64 lower-case hex digits"},
      {a + " *a\n", "line 1: expected 64 lower-case hex digits"},
      {"A" + a.substr(1) + "  a\n", "line 1: expected 64"},
      {a.substr(1) + "  a\n", "line 1: expected 64"},
      {"\n", "line 1: expected 64"},
      {a + "  \n", "line 1: expected a file name"},
      {a + "  x/y\n", "line 1: expected a file name without a path, got \"x/y\""},
      {a + "  ..\n", "without a path"},
      {a + "  /etc/passwd\n", "without a path"},
      {a + "  MANIFEST\n", "without a path"},
      {a + "  a\r\n", "without a path"},
      {a + "  " + std::string("x\0y", 3) + "\n", "without a path"},
      {a + "  " + std::string(300, 'x') + "\n", "without a path"},
      {a + "  b\n" + a + "  a\n", "line 2: names are not in ascending order"},
      {a + "  b\n" + a + "  b\n", "line 2: file b is listed twice"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(manifestFromText(c.text), ExitCode::BadArtifact, c.message)) << c.text;
}

} // namespace
} // namespace pipec
