
#include "tools/case/ArtifactCase.h"

#include "ir/TorchError.h"
#include "ir/artifact/Manifest.h"
#include "ir/artifact/SafeFile.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/Try.h"
#include "ir/support/VersionText.h"
#include "ir/values/BindArguments.h"
#include "ir/values/CompareValues.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/ValueFiles.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/Pipeline.h"
#include "runtime/Reference.h"
#include "tools/cli/CommandLine.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace pipec {

namespace {

namespace fs = std::filesystem;

constexpr const char *kCaseName = "case.json";
constexpr uint64_t kMaxCaseBytes = uint64_t(1) << 20;
constexpr int64_t kMostThreads = 1024;

llvm::json::Value toleranceValue(const std::optional<double> &tolerance) {
  return tolerance ? llvm::json::Value(*tolerance) : llvm::json::Value(nullptr);
}

std::string toJson(const ArtifactCase &case_) {
  return printJson(llvm::json::Object{{"schema_version", 1},
                                      {"source_digest", case_.sourceDigest},
                                      {"tool_version", case_.toolVersion},
                                      {"torch_version", case_.torchVersion},
                                      {"microbatches", case_.microBatches},
                                      {"threads", case_.threads},
                                      {"seed", case_.seed},
                                      {"rtol", toleranceValue(case_.rtol)},
                                      {"atol", toleranceValue(case_.atol)},
                                      {"inputs", case_.inputs},
                                      {"outputs", case_.outputs}});
}

std::optional<double> toleranceFrom(JsonObject &object, llvm::StringRef key) {
  const llvm::json::Value *value = object.value(key);
  if (!value || value->getAsNull())
    return std::nullopt;
  auto number = value->getAsNumber();
  if (number && *number >= 0)
    return *number;
  object.fail(key, "expected a number of at least 0, or null for the default of the dtype");
  return std::nullopt;
}

/// Only a file beside case.json is allowed.
std::string fileFrom(JsonObject &object, llvm::StringRef key) {
  std::string name = object.string(key);
  if (!isArtifactFileName(name))
    object.fail(key, "expected the name of a file beside case.json, got \"" + name + "\"");
  return name;
}

ArtifactCase caseFrom(JsonObject &object) {
  ArtifactCase case_;
  object.integer("schema_version", 1, 1);
  case_.sourceDigest = object.string("source_digest");
  case_.toolVersion = versionFrom(object, "tool_version");
  case_.torchVersion = versionFrom(object, "torch_version");
  case_.microBatches = object.integer("microbatches", 1, kMostMicroBatches);
  case_.threads = static_cast<int>(object.integer("threads", 1, kMostThreads));
  case_.seed = object.integer("seed");
  case_.rtol = toleranceFrom(object, "rtol");
  case_.atol = toleranceFrom(object, "atol");
  case_.inputs = fileFrom(object, "inputs");
  case_.outputs = fileFrom(object, "outputs");
  object.finish();
  return case_;
}

/// --force replaces a case, and no files of others.
llvm::Error checkReplaceable(const std::string &target) {
  const char *own[] = {kCaseName, "inputs.pt", "outputs.pt"};
  std::error_code error;
  bool isCase = fs::is_directory(fs::symlink_status(target, error)) &&
                fs::exists(fs::path(target) / kCaseName, error);
  std::string other;
  if (isCase)
    for (const auto &entry : fs::directory_iterator(target, error))
      if (!llvm::is_contained(own, entry.path().filename().string()))
        other = entry.path().filename().string();
  if (isCase && other.empty() && !error)
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   target + ": exists and is not a recorded case: " +
                       (other.empty() ? "it has no case.json" : "it holds " + other),
                   "choose another path, or move it away");
}

llvm::Error checkCaseTarget(const std::string &target, bool force) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(target, ignored)))
    return llvm::Error::success();
  return force ? checkReplaceable(target) : existsAlready(target);
}

/// The example once per micro-batch, along the batch dimensions.
std::vector<c10::IValue> batchOf(const Signature &signature,
                                 const std::vector<c10::IValue> &example, int64_t samples) {
  std::vector<c10::IValue> batch;
  for (size_t i = 0; i < example.size(); ++i)
    batch.push_back(resizeBatch(example[i], cutOf(signature.inputs[i]), samples));
  return batch;
}

} // namespace

llvm::Expected<ArtifactCase> readCase(const std::string &directory) {
  FileHandle opened = TRY(openDirectory(directory));
  llvm::Expected<FileHandle> file = openForReading(opened, kCaseName);
  if (!file) {
    const ErrorText text = describe(withContext(file.takeError(), directory));
    return makeError(text.code, text.message,
                     "pass the directory that pipe-compile --record-case wrote");
  }
  llvm::Expected<std::string> text = readAll(*file, kCaseName, kMaxCaseBytes);
  if (!text)
    return withContext(text.takeError(), directory);
  JsonLimits limits;
  limits.what = directory + "/" + kCaseName;
  limits.code = ExitCode::Unreadable;
  llvm::json::Value document = TRY(parseJson(*text, limits));
  JsonReading reading;
  JsonObject object(reading, &document, "");
  ArtifactCase case_ = caseFrom(object);
  if (!reading.error.empty())
    return makeError(ExitCode::Unreadable, limits.what + ": " + reading.error);
  return case_;
}

llvm::Expected<Comparison> runCase(const std::string &artifact, const std::string &directory,
                                   const ArtifactCase &case_) {
  Arguments arguments = TRY(readArguments(directory + "/" + case_.inputs));
  c10::IValue expected = TRY(readValue(directory + "/" + case_.outputs));
  PipelineOptions options;
  options.microBatches = case_.microBatches;
  options.threads = case_.threads;
  options.seed = static_cast<uint64_t>(case_.seed);
  Pipeline pipeline = TRY(Pipeline::load(artifact, options));
  auto inputs = TRY(pipeline.bind(arguments));
  c10::IValue result = TRY(pipeline.infer(inputs));
  return guardTorch(ExitCode::Other, "comparing the outputs",
                    [&] { return compare(expected, result, case_.rtol, case_.atol); });
}

llvm::Expected<CaseWriter> CaseWriter::create(const std::string &directory, bool force) {
  CaseWriter writer;
  fs::path target = llvm::StringRef(directory).rtrim('/').str();
  writer.target_ = target.string();
  writer.force_ = force;
  std::string name = target.filename().string();
  if (name.empty() || name == "." || name == "..")
    return failf(ExitCode::Usage, "--record-case: expected the name of a directory, got \"{}\"",
                 directory);
  TRY(checkCaseTarget(writer.target_, force));
  if (std::error_code code = writer.temporary_.make(
          (target.parent_path() / fmt::format(".{}.tmp-{}", name, ::getpid())).string()))
    return failf(ExitCode::IO, "{}: cannot make a directory beside it: {}", writer.target_,
                 systemMessage(code.value()));
  return writer;
}

llvm::Error CaseWriter::record(const Plan &plan, const CaseSource &source) {
  ReferenceOptions options;
  options.method = plan.signature.method;
  options.threads = 1; // the numbers depend on it
  options.mode = source.mode;
  for (const InputSpec &input : plan.signature.inputs)
    if (input.parts.empty() || input.batchDim)
      options.batchDims.emplace_back(input.name, input.batchDim);
  for (const InputSpec &input : plan.signature.inputs)
    for (const PartDim &part : input.parts)
      options.batchDims.emplace_back(input.name + "." + part.path, part.dim);
  const bool splits = isCut(plan.signature);
  options.microBatches = splits ? plan.microBatches : 1;
  options.merges = source.merges;
  Reference reference = TRY(Reference::load(source.model, options));
  Arguments arguments = TRY(argumentsFromOption(source.inputs));
  auto example = TRY(bindArguments(plan.signature, reference.inputTypes(), arguments));
  int64_t samples = 0;
  if (splits) {
    int64_t size = TRY(batchSize(plan.signature, example));
    samples = size * options.microBatches;
  }
  const auto batch = TRY(guardTorch(ExitCode::Other, "making the batch of the case",
                                    [&] { return batchOf(plan.signature, example, samples); }));
  TRY(writeValue(temporary_.path() + "/inputs.pt", c10::ivalue::Tuple::create(batch)));
  c10::IValue result = TRY(reference.infer(batch));
  TRY(writeValue(temporary_.path() + "/outputs.pt", result));
  ArtifactCase case_;
  case_.sourceDigest = plan.sourceDigest;
  case_.toolVersion = plan.toolVersion;
  case_.torchVersion = plan.torchVersion;
  case_.microBatches = options.microBatches;
  FileHandle directory = TRY(openDirectory(temporary_.path()));
  if (llvm::Error error = writeNewFile(directory, kCaseName, toJson(case_)))
    return withContext(std::move(error), target_);
  return sync(directory, temporary_.path());
}

llvm::Error CaseWriter::publish() {
  std::lock_guard lock(unfinishedOutputs().mutex);
  if (!temporary_.isOpen())
    return failf(ExitCode::Other, "{}: not published: the process is ending", target_);
  TRY(checkCaseTarget(target_, force_));
  const std::string temporary = temporary_.path();
  std::error_code ignored;
  bool replaces = fs::exists(target_, ignored);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target_.c_str(),
                  replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
    // If the file system has no such rename: move the old one away first.
    if (replaces)
      removeTree(target_);
    if (::rename(temporary.c_str(), target_.c_str()) != 0)
      return failf(ExitCode::IO, "{}: cannot move the case there: {}", target_,
                   systemMessage(errno));
    replaces = false;
  }
  temporary_.release();
  if (replaces)
    removeTree(temporary);
  return llvm::Error::success();
}

} // namespace pipec
