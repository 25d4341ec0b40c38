// What a pass is, and the manager that keeps passes honest.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <map>
#include <memory>
#include <variant>

namespace pipec {

/// The options of one pass instance as text, in a fixed order: cut-stages{stages=4} has {"stages":
/// "4"}.
using PassOptions = std::map<std::string, std::string>;

/// A transformation of a whole model. No state survives a run.
class ModelPass {
public:
  virtual ~ModelPass() = default;
  /// True when the model was changed. Valid in, valid out: it relies on what verify(Model)
  /// promises.
  virtual llvm::Expected<bool> run(Model &model) = 0;
};

/// A transformation of a staged model.
class StagedPass {
public:
  virtual ~StagedPass() = default;
  virtual llvm::Expected<bool> run(StagedModel &model) = 0;
};

/// The one step from a model to stages. Its result shares the attributes' values with the model,
/// which is used up.
class SplitPass {
public:
  virtual ~SplitPass() = default;
  virtual llvm::Expected<StagedModel> run(Model model) = 0;
};

/// A name for several passes: wherever it stands in a pipeline, the manager runs these instead.
struct PassGroup {
  llvm::StringRef pipeline; // as parsePipeline reads it, of passes that have rows of their own
};

/// The row of a pass in the registry (passes/Registry.cpp): the one place where a pass is listed.
/// docs/passes.md is made from it.
struct PassInfo {
  llvm::StringRef name;        // kebab-case
  llvm::StringRef description; // one sentence: what it does
  llvm::StringRef requires_;   // what must hold before
  llvm::StringRef guarantees;  // what holds after
  llvm::StringRef example;     // before and after, at most ten lines
  llvm::StringRef options;     // "stages=N: number of stages", one a line, or empty
  using Factory =
      std::variant<std::function<llvm::Expected<std::unique_ptr<ModelPass>>(const PassOptions &)>,
                   std::function<llvm::Expected<std::unique_ptr<StagedPass>>(const PassOptions &)>,
                   std::function<llvm::Expected<std::unique_ptr<SplitPass>>(const PassOptions &)>,
                   PassGroup>;
  Factory make;
};

/// All passes in order of the pipeline.
llvm::ArrayRef<PassInfo> allPasses();

/// nullptr when there is none; `nearest` then has the most similar name, if one is close.
const PassInfo *findPass(llvm::StringRef name, std::string *nearest = nullptr);
const PassInfo *findPass(llvm::ArrayRef<PassInfo> table, llvm::StringRef name,
                         std::string *nearest = nullptr);

} // namespace pipec
