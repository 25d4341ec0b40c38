// The first step: a TorchScript file becomes a Model whose graph still has `self`; and what later
// steps ask of the source's method.
#pragma once

#include "ir/Model.h"
#include "ir/SourceMode.h"

#include <set>

namespace pipec {

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

/// Maps `path` anew, so that its state starts as saved, and calls `method` once per entry of
/// `calls`, in order, each time with random numbers from `seed`. Gives the result of each call,
/// which no later call changes. Errors: those of loadSource; Usage with LibTorch's message when the method
/// fails on these inputs.
llvm::Expected<std::vector<c10::IValue>> runFresh(const std::string &path,
                                                  const std::string &method, const SourceMode &mode,
                                                  std::vector<std::vector<c10::IValue>> calls,
                                                  uint64_t seed);

} // namespace pipec
