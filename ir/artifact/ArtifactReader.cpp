#include "ir/artifact/ArtifactReader.h"

#include "ir/artifact/Manifest.h"
#include "ir/artifact/SafeFile.h"
#include "ir/plan/PlanFromJson.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/support/CannotRead.h"
#include "ir/support/FileKind.h"
#include "ir/support/Sha256.h"
#include "ir/support/ShownText.h"
#include "ir/support/Try.h"
#include "ir/support/Version.h"
#include "ir/support/VersionText.h"

#include <fcntl.h>
#include <filesystem>
#include <set>

namespace pipec {
namespace {

constexpr uint64_t kMaxPlanBytes = uint64_t(64) << 20;
constexpr uint64_t kMaxScheduleBytes = uint64_t(64) << 20;

class IntegrityCheck {
public:
  explicit IntegrityCheck(const std::string &path) : path_(path) {}

  std::vector<Finding> run() {
    std::error_code ignored;
    bool exists = std::filesystem::exists(path_, ignored);
    if (exists && !std::filesystem::is_directory(path_, ignored)) {
      add("no-artifact", "", "expected an artifact directory, got a file");
      return findings_;
    }
    llvm::Expected<FileHandle> directory = openDirectory(path_);
    if (!directory) {
      addError(exists ? "io-error" : "no-artifact", "", directory.takeError());
      return findings_;
    }
    directory_ = std::move(*directory);
    if (!readNames() || !readManifest())
      return findings_;
    for (const auto &[name, digest] : manifest_)
      checkFile(name, digest);
    for (const std::string &name : names_)
      if (name != kManifestName && !manifest_.count(name))
        add("extra-file", shown(name), shown(name) + ": MANIFEST does not list it");
    return findings_;
  }

private:
  void add(const std::string &code, const std::string &where, const std::string &message,
           ExitCode exitCode = ExitCode::BadArtifact) {
    findings_.push_back({code, where, message, exitCode});
  }

  /// `code`, unless the system refused an operation.
  void addError(const std::string &code, const std::string &where, llvm::Error error) {
    ErrorText text = describe(std::move(error));
    llvm::StringRef message = text.message;
    message.consume_front(path_ + ": ");
    add(text.code == ExitCode::IO && code != "no-artifact" ? "io-error" : code, where,
        message.str(), text.code);
  }

  bool readNames() {
    llvm::Expected<std::vector<std::string>> names = listDirectory(directory_, path_);
    if (!names) {
      addError("io-error", "", names.takeError());
      return false;
    }
    names_.insert(names->begin(), names->end());
    return true;
  }

  bool readManifest() {
    if (!names_.count(kManifestName)) {
      add("no-artifact", kManifestName,
          fmt::format("{}: missing: not a pipec artifact, or an unfinished one", kManifestName));
      return false;
    }
    llvm::Expected<FileHandle> file = openForReading(directory_, kManifestName);
    if (!file) {
      addError("not-a-file", kManifestName, file.takeError());
      return false;
    }
    llvm::Expected<std::string> text = readAll(*file, kManifestName, kMaxManifestBytes);
    if (!text) {
      addError("too-large", kManifestName, text.takeError());
      return false;
    }
    llvm::Expected<Manifest> manifest = manifestFromText(*text);
    if (!manifest) {
      addError("bad-manifest", kManifestName, manifest.takeError());
      return false;
    }
    manifest_ = std::move(*manifest);
    return true;
  }

  void checkFile(const std::string &name, const std::string &expected) {
    if (!names_.count(name))
      return add("missing-file", name, name + ": missing: MANIFEST lists it");
    llvm::Expected<FileHandle> file = openForReading(directory_, name);
    if (!file)
      return addError("not-a-file", name, file.takeError());
    llvm::Expected<std::string> digest = sha256Of(*file, name);
    if (!digest)
      return addError("io-error", name, digest.takeError());
    if (*digest == expected)
      return;
    std::string message =
        fmt::format("{}: changed: expected sha256 {}..., as listed in MANIFEST, got {}...", name,
                    expected.substr(0, 12), digest->substr(0, 12));
    for (const auto &[other, otherDigest] : manifest_)
      if (otherDigest == *digest)
        message = fmt::format("{}: changed: it has the contents of {}", name, other);
    add("changed-file", name, message);
  }

  std::string path_;
  FileHandle directory_;
  std::set<std::string> names_;
  Manifest manifest_;
  std::vector<Finding> findings_;
};

/// MANIFEST, plan.json and schedule.csv of an artifact, each from one reading.
class PlanReader {
public:
  explicit PlanReader(const std::string &path) : path_(path) {}

  llvm::Expected<Artifact> run() {
    directory_ = TRY(openDirectory(path_));
    Artifact artifact;
    artifact.directory = path_;
    llvm::Error error = read(artifact);
    if (error)
      return withContext(std::move(error), path_);
    return artifact;
  }

  llvm::Expected<std::optional<Artifact>> evaluation(const std::string &id) {
    directory_ = TRY(openDirectory(path_));
    Artifact artifact;
    artifact.directory = path_;
    llvm::Expected<bool> has = readEvaluation(artifact, id);
    if (!has)
      return withContext(has.takeError(), path_);
    if (!*has)
      return std::nullopt;
    return std::optional(std::move(artifact));
  }

private:
  llvm::Expected<std::string> readFile(const std::string &name, uint64_t maxBytes) {
    FileHandle file = TRY(openForReading(directory_, name));
    return readAll(file, name, maxBytes);
  }

  /// A file that MANIFEST lists.
  llvm::Expected<std::string> readListed(const std::string &name, uint64_t maxBytes) {
    auto listed = manifest_.find(name);
    if (listed == manifest_.end())
      return failf(ExitCode::BadArtifact, "{}: MANIFEST does not list it", name);
    llvm::Expected<std::string> text = readFile(name, maxBytes);
    if (text && sha256Hex(*text) != listed->second)
      return failf(ExitCode::BadArtifact, "{}: changed: its contents differ from MANIFEST", name);
    return text;
  }

  llvm::Error read(Artifact &artifact) {
    TRY(readManifest(artifact));
    TRY(readPlan("plan.json", artifact));
    if (!isSameRelease(artifact.plan.torchVersion, torchVersion()))
      artifact.warnings.push_back(fmt::format("{}: compiled with LibTorch {}, this is LibTorch {}: "
                                              "numbers may differ in their last bits",
                                              path_, artifact.plan.torchVersion, torchVersion()));
    artifact.scheduleCsv = TRY(readListed("schedule.csv", kMaxScheduleBytes));
    return llvm::Error::success();
  }

  /// False: there is none.
  llvm::Expected<bool> readEvaluation(Artifact &artifact, const std::string &id) {
    TRY(readManifest(artifact));
    if (artifact.id != id)
      return makeError(ExitCode::BadArtifact, "changed while it was read", "run the command again");
    const std::string name = std::string(kEvaluationPrefix) + "plan.json";
    if (!manifest_.count(name))
      return false;
    TRY(readPlan(name, artifact));
    const Plan &plan = artifact.plan;
    if (plan.mode != Mode::Infer || plan.scheduleName != "forward-only")
      return failf(ExitCode::BadArtifact, "{}: expected a plan of inference under forward-only",
                   name);
    artifact.scheduleCsv = toCsv(forwardOnly(plan, plan.microBatches));
    return true;
  }

  llvm::Error readManifest(Artifact &artifact) {
    std::string text = TRY(readFile(kManifestName, kMaxManifestBytes));
    artifact.id = sha256Hex(text);
    manifest_ = TRY(manifestFromText(text));
    return llvm::Error::success();
  }

  llvm::Error readPlan(const std::string &name, Artifact &artifact) {
    std::string text = TRY(readListed(name, kMaxPlanBytes));
    artifact.plan = TRY(planFromJson(text, artifact.warnings));
    for (size_t s = 0; s < artifact.plan.stages.size(); ++s)
      if (!manifest_.count(artifact.plan.stages[s].file))
        return failf(ExitCode::BadArtifact, "{}: stage {} is in {}, which MANIFEST does not list",
                     name, s, artifact.plan.stages[s].file);
    return llvm::Error::success();
  }

  std::string path_;
  FileHandle directory_;
  Manifest manifest_;
};

} // namespace

std::vector<Finding> checkIntegrity(const std::string &directory) {
  return IntegrityCheck(directory).run();
}

std::string Artifact::stagePath(size_t stage) const {
  return directory + "/" + plan.stages[stage].file;
}

llvm::Expected<Artifact> openArtifact(const std::string &directory) {
  std::error_code ignored;
  if (!std::filesystem::exists(directory, ignored))
    return cannotRead(directory, std::make_error_code(std::errc::no_such_file_or_directory),
                      "pass the directory that pipe-compile wrote");
  TRY(refuseOtherThanArtifact(directory));
  std::vector<Finding> findings = checkIntegrity(directory);
  if (!findings.empty()) {
    const Finding &first = findings.front();
    std::string more =
        findings.size() > 1 ? fmt::format(" (and {} more findings)", findings.size() - 1) : "";
    return makeError(first.exitCode, directory + ": " + first.message + more,
                     first.code == "no-artifact"
                         ? "pass the directory that pipe-compile wrote"
                         : "run pipe-check for all findings, then compile the model again");
  }
  return openArtifactPlan(directory);
}

llvm::Expected<Artifact> openArtifactPlan(const std::string &directory) {
  return PlanReader(directory).run();
}

llvm::Expected<std::optional<Artifact>> evaluationOf(const Artifact &training) {
  return PlanReader(training.directory).evaluation(training.id);
}

} // namespace pipec
