// The first step: a TorchScript file becomes a Model whose graph still has `self`; and what later
// steps ask of the source's method.
#pragma once

#include "compiler/Progress.h"
#include "ir/Model.h"
#include "ir/SourceMode.h"

#include <set>

namespace pipec {

/// Of the random numbers of every call, of source and stages.
constexpr uint64_t kExampleSeed = 0x9e3779b9;

/// Elements of all tensors: what a run takes grows with them.
int64_t countElements(llvm::ArrayRef<c10::IValue> inputs);

/// Maps `path`, copies the graph of `method` and reads its signature. Nothing is inlined; the model
/// holds the module object. Errors: IO, Unreadable (with the methods that exist when `method` does
/// not).
llvm::Expected<Model> importModel(const std::string &path, const std::string &method);

/// Declared type of each argument of the method.
std::vector<c10::TypePtr> argumentTypes(const Model &model);

/// Marks the arguments and attributes that the model writes in place, running statistics of
/// normalisations in training included.
void noteWrites(Model &model);

/// Storages of several attributes, some of them written, that no operator writes in place: the
/// method assigns another tensor, which the other attributes do not see. After noteWrites().
std::set<int64_t> onlyAssignedStorages(const Model &model);

/// What the test runs of a model print and warn of.
enum class ModelOutput { OfFirstRun, None };

/// A method of the source, for test runs that each start from the state in the file. One thread at
/// a time; it uses others.
class SourceRunner {
public:
  using Values = std::vector<c10::IValue>;

  /// `draws`: the model may draw random numbers, so that its runs cannot go on at the same time.
  /// `path` must outlive it.
  SourceRunner(const std::string &path, const std::string &method, const SourceMode &mode,
               bool draws, ModelOutput output, const ProgressCallback &progress = {});
  ~SourceRunner();

  /// For the progress: about how many calls there will be, and elements in all of their arguments.
  void expect(size_t calls, int64_t elements);

  /// Calls the method in order on one copy of the model, each time with random numbers from
  /// kExampleSeed. Gives the result of each call, which no later call changes. Errors: those of
  /// loadSource; Usage with LibTorch's message when the method fails on these inputs.
  llvm::Expected<Values> run(std::vector<Values> calls);

  /// Several such runs at the same time where that is possible: all of their calls where nothing in
  /// the file can write, so that one copy serves them all; else each run on its copy. Results in
  /// the order of `runs`, with the bits of one after the other. A run whose calls all succeed is
  /// not affected by one that fails.
  std::vector<llvm::Expected<Values>> runAll(std::vector<std::vector<Values>> runs);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
