// The interface of a pass, and the registry of all passes.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <map>
#include <memory>
#include <variant>

namespace pipec {

/// The options of one pass instance as text, in a fixed order: for cut-stages{stages=4} {"stages":
/// "4"}.
using PassOptions = std::map<std::string, std::string>;

/// A transformation of a whole model. It keeps no state between runs.
class ModelPass {
public:
  virtual ~ModelPass() = default;
  /// Returns true if the model changed. It may rely on verify(Model), and its result must pass
  /// verify(Model).
  virtual llvm::Expected<bool> run(Model &model) = 0;
};

/// A transformation of a staged model.
class StagedPass {
public:
  virtual ~StagedPass() = default;
  virtual llvm::Expected<bool> run(StagedModel &model) = 0;
};

/// The one step from a model to stages. It consumes the model; its result shares the attributes'
/// values.
class SplitPass {
public:
  virtual ~SplitPass() = default;
  virtual llvm::Expected<StagedModel> run(Model model) = 0;
};

/// A name for several passes: the manager runs them at every place where a pipeline has the name.
struct PassGroup {
  llvm::StringRef pipeline; // in parsePipeline's form, of passes that have their own rows
};

/// The row of a pass in the registry (passes/Registry.cpp), the only list of passes. docs/passes.md
/// is generated from it.
struct PassInfo {
  llvm::StringRef name;        // kebab-case
  llvm::StringRef description; // one sentence: what it does
  llvm::StringRef requires_;   // the precondition
  llvm::StringRef guarantees;  // the postcondition
  llvm::StringRef example;     // before and after, at most ten lines
  llvm::StringRef options;     // "stages=N: number of stages", one per line, or empty
  using Factory =
      std::variant<std::function<llvm::Expected<std::unique_ptr<ModelPass>>(const PassOptions &)>,
                   std::function<llvm::Expected<std::unique_ptr<StagedPass>>(const PassOptions &)>,
                   std::function<llvm::Expected<std::unique_ptr<SplitPass>>(const PassOptions &)>,
                   PassGroup>;
  Factory make;
};

/// All passes in order of the pipeline.
llvm::ArrayRef<PassInfo> allPasses();

/// nullptr if there is none; `nearest` is then set to the most similar name, if one is close.
const PassInfo *findPass(llvm::StringRef name, std::string *nearest = nullptr);
const PassInfo *findPass(llvm::ArrayRef<PassInfo> table, llvm::StringRef name,
                         std::string *nearest = nullptr);

} // namespace pipec
