// The first step: a TorchScript file becomes a Model whose graph still has `self`. Also the
// questions of later steps about the source's method.
#pragma once

#include "compiler/Progress.h"
#include "ir/Model.h"
#include "ir/SourceMode.h"
#include "ir/batch/ModelRunner.h"

#include <optional>
#include <set>

namespace pipec {

/// The seed of every call, of source and stages.
constexpr uint64_t kExampleSeed = 0x9e3779b9;

/// The number of elements of all tensors: the cost of a run grows with it.
int64_t countElements(llvm::ArrayRef<c10::IValue> inputs);
/// Of several calls.
int64_t countElementsOfCalls(llvm::ArrayRef<std::vector<c10::IValue>> calls);

/// Maps `path`, copies the graph of `method` and reads its signature. With a loss in `mode`, it
/// takes the method that joins the two instead. Nothing is inlined; the model holds the module
/// object, as loadJoined() reads it. Errors: IO, Unreadable (with the existing
/// methods if `method` does not exist); those of joinLoss.
llvm::Expected<Model> importModel(const std::string &path, const std::string &method,
                                  const SourceMode &mode = SourceMode());

/// Declared type of each argument of the method.
std::vector<c10::TypePtr> argumentTypes(const Model &model);

/// Marks the arguments and attributes that the model writes in place, including running statistics
/// of normalisations in training.
void noteWrites(Model &model);

/// Storages of several attributes, some of them written, that no operator writes in place: the
/// method assigns another tensor, and the other attributes do not see it. Call after noteWrites().
std::set<int64_t> onlyAssignedStorages(const Model &model);

/// The output of a model's test runs (prints and warnings) that is shown.
enum class ModelOutput { OfFirstRun, None };

/// A method of the source, for test runs that each start from the state in the file. One thread at
/// a time; it uses further threads.
class SourceRunner {
public:
  using Values = std::vector<c10::IValue>;

  /// `draws`: the model may draw random numbers, so its runs cannot go on in parallel.
  /// `writesState`: whether the method, in normal form, writes attributes; false spares each run a
  /// copy of the model. Where that is not known, the functions in the file decide, also those that
  /// never run: every scripted nn.Embedding has one that writes.
  SourceRunner(const std::string &path, const std::string &method, const SourceMode &mode,
               bool draws, ModelOutput output, const ProgressCallback &progress = {},
               std::optional<bool> writesState = std::nullopt);
  ~SourceRunner();

  /// For the progress: the approximate number of calls to come, and of elements in all their
  /// arguments.
  void expect(size_t calls, int64_t elements);

  /// Switches dropout off in all runs, see ir/graph/Dropout.h. Call before the first run.
  void turnOffDropout();

  /// Calls the method in order on one copy of the model, each time with random numbers from
  /// kExampleSeed. Returns the result of each call; later calls do not change it. Errors: those of
  /// loadSource; Usage with LibTorch's message if the method fails on these inputs.
  llvm::Expected<Values> run(std::vector<Values> calls);

  /// Several such runs, in parallel if possible. If nothing in the file can write, all of their
  /// calls go on in parallel on one copy; otherwise each run has its own copy. Results are in the
  /// order of `runs` and have the same bits as runs one after the other. A failing run does not
  /// affect a run whose calls all succeed, unless it decides: after its failure no further runs
  /// start. Of calls with the same bits, which all start from the same state and seed, one runs for
  /// all, except those that are to be repeated.
  std::vector<llvm::Expected<Values>> runAll(std::vector<std::vector<Values>> runs,
                                             const RunRules &rules = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
