#include "compiler/Import.h"

#include "compiler/ParallelRuns.h"
#include "ir/InferenceSettings.h"
#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/torchfile/SourceCopies.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/MapTensors.h"
#include "ir/values/SameBits.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/OperatorFacts.h"

#include <ATen/Context.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>

namespace pipec {

llvm::Expected<Model> importModel(const std::string &path, const std::string &method,
                                  const SourceMode &mode) {
  const SourceModule source = TRY(loadJoined(path, mode));
  const std::string &name = source.loss ? source.loss->method : method;
  torch::jit::Method found = TRY(methodOf(source.module, path, name));
  return guardTorch(ExitCode::Unreadable, path + ": LibTorch cannot read method " + name, [&] {
    Model model;
    model.graph = torch::jit::toGraphFunction(found.function()).graph()->copy();
    model.signature = signatureOf(found.function().getSchema(), name);
    model.self = source.module._ivalue();
    return model;
  });
}

std::vector<c10::TypePtr> argumentTypes(const Model &model) {
  std::vector<c10::TypePtr> types;
  for (size_t i = 0; i < model.argumentCount(); ++i)
    types.push_back(model.graph->inputs()[i]->type());
  return types;
}

namespace {

/// Two attributes with these names cannot be in one stage file: the names are equal, or one is the
/// name of a module that holds the other.
bool clash(llvm::StringRef a, llvm::StringRef b) {
  return a == b || (startsWith(a, b) && a[b.size()] == '.') ||
         (startsWith(b, a) && b[a.size()] == '.');
}

/// A tensor constant of the method that the method writes keeps its value, like a buffer. So a
/// stage file holds it under a name that does not clash with the attributes' names.
void makeBuffer(Model &model, Attribute &constant) {
  auto isFree = [&](const std::string &name) {
    return llvm::none_of(model.attributes, [&](const Attribute &other) {
      return &other != &constant && (clash(name, other.name) ||
                                     llvm::any_of(other.otherNames, [&](const std::string &also) {
                                       return clash(name, also);
                                     }));
    });
  };
  constant.kind = AttributeKind::Buffer;
  auto [folder, number] = llvm::StringRef(constant.name).split('.');
  std::string first = folder.str();
  const std::string last = number.str();
  while (!isFree(constant.name))
    constant.name = (first += "_") + "." + last;
  constant.plainNames = {constant.name};
}

} // namespace

void noteWrites(Model &model) {
  AliasAnalysis alias(model);
  for (size_t i = 0; i < model.argumentCount(); ++i)
    model.signature.inputs[i].written = alias.isWrittenInside(model.graph->inputs()[i]);
  for (size_t i = 0; i < model.attributes.size(); ++i) {
    Attribute &attribute = model.attributes[i];
    // The operator that wrote a tensor may be gone: it was in a branch for training, or in an
    // unused part.
    const bool before = attribute.written && !attribute.value.isTensor();
    attribute.written = before || llvm::is_contained(model.stateOutputs, i) ||
                        alias.isWrittenInside(model.graph->inputs()[model.argumentCount() + i]);
  }
  for (Attribute &attribute : model.attributes)
    if (attribute.kind == AttributeKind::Constant && attribute.written)
      makeBuffer(model, attribute);
}

std::set<int64_t> onlyAssignedStorages(const Model &model) {
  std::map<int64_t, size_t> holders;
  std::set<int64_t> candidates;
  for (const Attribute &attribute : model.attributes)
    ++holders[attribute.storage];
  for (const Attribute &attribute : model.attributes)
    if (attribute.storage >= 0 && attribute.written && holders[attribute.storage] > 1)
      candidates.insert(attribute.storage);
  if (candidates.empty()) // nearly always: the analysis takes time
    return candidates;
  AliasAnalysis alias(model);
  for (size_t i = 0; i < model.attributes.size(); ++i)
    if (alias.isWrittenInside(model.graph->inputs()[model.argumentCount() + i]))
      candidates.erase(model.attributes[i].storage);
  return candidates;
}

namespace {

/// A call of an object whose methods are not in the file: a class that a library registered.
bool callsForeignObject(torch::jit::Node *node, const torch::jit::Module &module) {
  if (node->kind() != c10::prim::CallMethod)
    return false;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  return type && type->compilation_unit() != module._ivalue()->compilation_unit();
}

} // namespace

int64_t countElements(llvm::ArrayRef<c10::IValue> inputs) {
  int64_t count = 0;
  for (const c10::IValue &input : inputs)
    forEachTensor(input, [&](const at::Tensor &tensor) {
      count += tensor.defined() ? std::max<int64_t>(1, tensor.numel()) : 0;
    });
  return std::max<int64_t>(1, count);
}

int64_t countElementsOfCalls(llvm::ArrayRef<std::vector<c10::IValue>> calls) {
  int64_t count = 0;
  for (const std::vector<c10::IValue> &inputs : calls)
    count += countElements(inputs);
  return count;
}

struct SourceRunner::Impl {
  struct Copy {
    torch::jit::Module module;
    bool keepsState; // a call could change the next one
  };

  SourceCopies copies;
  std::string method;
  bool draws;
  ProgressCallback progress;
  bool quiet;
  std::optional<bool> writesState; // as the normal form shows
  std::mutex mutex = {};
  std::optional<bool> keepsState = {};           // once a copy was loaded
  std::optional<torch::jit::Module> shared = {}; // for a model without state

  size_t expectedCalls = 0, doneCalls = 0; // of all that runs
  int64_t expectedElements = 0, doneElements = 0;
  std::chrono::steady_clock::duration spent = {};

  /// Calls on one copy.
  struct Job {
    llvm::MutableArrayRef<Values> calls;
    bool decides = false;       // whether others start
    bool isRepeat = false;      // runs in any case
    std::optional<size_t> same; // an earlier job with the same arguments, which runs for this one
    std::optional<llvm::Expected<Values>> results = {};
  };

  /// For one run.
  llvm::Expected<Copy> copy() {
    std::unique_lock lock(mutex);
    if (shared)
      return Copy{*shared, false};
    const bool isQuiet = std::exchange(quiet, true);
    const bool isKnown = keepsState.has_value();
    if (keepsState == true)
      lock.unlock();
    torch::jit::Module module = TRY(copies.next(isQuiet ? Prints::Removed : Prints::Kept));
    if (!isKnown)
      keepsState = anyNodeInside(module, [&](torch::jit::Node *node) {
        return writesState.value_or(mayWriteAnything(node)) || callsForeignObject(node, module);
      });
    if (lock.owns_lock() && !*keepsState && (isQuiet || !anyNodeInside(module, isPrint)))
      shared = module;
    return Copy{module, *keepsState};
  }

  /// Runs the first job on `first`, the others on their own copies or on the shared one.
  void runJobs(llvm::MutableArrayRef<Job> jobs, Copy &first) {
    std::vector<size_t> distinct; // the jobs that run
    std::vector<int64_t> elements;
    for (size_t j = 0; j < jobs.size(); ++j) {
      if (jobs[j].same)
        continue;
      distinct.push_back(j);
      elements.push_back(countElementsOfCalls(jobs[j].calls));
    }
    const auto start = std::chrono::steady_clock::now();
    std::mutex telling;
    DecidingRuns rule;
    llvm::Error error =
        forEachParallel(elements, draws ? 1 : threadsForRuns(), [&](size_t index) -> llvm::Error {
          Job &job = jobs[distinct[index]];
          const size_t calls = job.calls.size();
          job.results.emplace(rule.start(job.decides, [&]() -> llvm::Expected<Values> {
            if (index == 0)
              return call(first, job.calls);
            Copy own = TRY(copy());
            return call(own, job.calls);
          }));
          std::lock_guard lock(telling);
          doneCalls += calls;
          doneElements += elements[index];
          tell(spent + (std::chrono::steady_clock::now() - start));
          return llvm::Error::success();
        });
    spent += std::chrono::steady_clock::now() - start;
    const bool failed = static_cast<bool>(error);
    const ErrorText text =
        failed ? describe(std::move(error)) : ErrorText(); // out of memory, outside of the model
    for (size_t j : distinct)
      if (!jobs[j].results)
        jobs[j].results.emplace(makeError(text.code, text.message, text.help));
    for (Job &job : jobs)
      if (job.same)
        repeat(*jobs[*job.same].results, job);
  }

  static void repeat(llvm::Expected<Values> &results, Job &job) {
    if (results) {
      job.results.emplace(ownCopies(*results));
      return;
    }
    const ErrorText text = describe(results.takeError());
    results = makeError(text.code, text.message, text.help);
    job.results.emplace(makeError(text.code, text.message, text.help));
  }

  /// Calls of a model without state and draws give the same results for the same arguments in
  /// memory that is aligned alike.
  static void findRepeated(llvm::MutableArrayRef<Job> jobs) {
    for (size_t j = 1; j < jobs.size(); ++j)
      for (size_t before = 0; before < j && !jobs[j].same && !jobs[j].isRepeat; ++before)
        if (!jobs[before].same &&
            areAlignedAlike(jobs[before].calls.front(), jobs[j].calls.front()) &&
            haveSameBits(jobs[before].calls.front(), jobs[j].calls.front()))
          jobs[j].same = before;
  }

  void tell(std::chrono::steady_clock::duration soFar) const {
    if (!progress)
      return;
    const int64_t left = expectedElements - doneElements;
    const bool known = left > 0 && expectedCalls > doneCalls;
    const double ns = static_cast<double>(std::chrono::nanoseconds(soFar).count()) /
                      static_cast<double>(doneElements) * static_cast<double>(left);
    progress({"running the source", "runs", doneCalls, known ? expectedCalls : 0,
              known ? static_cast<int64_t>(ns) : -1});
  }

  llvm::Expected<Values> call(Copy &copy, llvm::MutableArrayRef<Values> calls) const {
    return guardTorch(ExitCode::Usage, "running the model on the example inputs", [&] {
      Values results;
      for (Values &inputs : calls) {
        at::manual_seed(kExampleSeed); // so an unused draw at the end of a call does not change the
                                       // next
        results.push_back(ownCopies(runMethod(copy.module, method, std::move(inputs))).front());
      }
      return results;
    });
  }
};

SourceRunner::SourceRunner(const std::string &path, const std::string &method,
                           const SourceMode &mode, bool draws, ModelOutput output,
                           const ProgressCallback &progress, std::optional<bool> writesState)
    : impl_(new Impl{
          {path, mode}, method, draws, progress, output == ModelOutput::None, writesState}) {}

SourceRunner::~SourceRunner() = default;

void SourceRunner::turnOffDropout() { impl_->copies.turnOffDropout(); }

llvm::Expected<SourceRunner::Values> SourceRunner::run(std::vector<Values> calls) {
  std::vector<std::vector<Values>> runs;
  runs.push_back(std::move(calls));
  return std::move(runAll(std::move(runs)).front());
}

void SourceRunner::expect(size_t calls, int64_t elements) {
  impl_->expectedCalls = calls;
  impl_->expectedElements = elements;
}

std::vector<llvm::Expected<SourceRunner::Values>>
SourceRunner::runAll(std::vector<std::vector<Values>> runs, const RunRules &rules) {
  InferenceSettings settings(/*intraOpThreads=*/1); // fast enough, and the same on every machine
  std::vector<llvm::Expected<Values>> results;
  llvm::Expected<Impl::Copy> first = impl_->copy();
  if (!first) {
    const ErrorText text = describe(first.takeError());
    for (size_t r = 0; r < runs.size(); ++r)
      results.push_back(makeError(text.code, text.message, text.help));
    return results;
  }
  std::vector<Impl::Job> jobs;
  for (size_t r = 0; r < runs.size(); ++r)
    for (size_t c = 0; c < runs[r].size(); c += jobs.back().calls.size())
      jobs.push_back(
          {llvm::MutableArrayRef<Values>(runs[r]).slice(c, first->keepsState ? runs[r].size() : 1),
           r < rules.deciding, r + rules.repeated >= runs.size(), std::nullopt});
  if (!first->keepsState && !impl_->draws)
    Impl::findRepeated(jobs);
  impl_->runJobs(jobs, *first);
  auto job = jobs.begin();
  for (std::vector<Values> &calls : runs) {
    llvm::Expected<Values> joined = Values();
    for (size_t c = 0; c < calls.size(); ++job) {
      c += job->calls.size();
      if (!joined) // the first call that fails
        llvm::consumeError(job->results->takeError());
      else if (!*job->results)
        joined = job->results->takeError();
      else
        llvm::append_range(*joined, **job->results);
    }
    results.push_back(std::move(joined));
  }
  return results;
}

} // namespace pipec
