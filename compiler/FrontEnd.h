// From the file to a model in normal form and the facts that running the source shows: all steps of
// a compile before the cuts.
#pragma once

#include "compiler/ExampleRuns.h"
#include "compiler/PassDumps.h"
#include "compiler/Phases.h"
#include "compiler/verify/MatchSource.h"
#include "ir/torchfile/SourceCopies.h"
#include "passes/Pass.h"
#include "passes/Registry.h"

namespace pipec {

/// The source with the results of its analysis.
struct Source {
  Model model;                     // in normal form
  PassContext context;             // what the steps so far noted
  std::vector<c10::IValue> inputs; // one value per argument; empty: no example was given
  ExampleStudy study;              // of the source on them
};

/// For one model file and one set of options, which must outlive it, like its other arguments.
class FrontEnd {
public:
  FrontEnd(const std::string &path, const CompileOptions &options, PassDumps &dumps, Phases &phases,
           llvm::ArrayRef<PassInfo> registry = allPasses())
      : path_(path), options_(options), dumps_(dumps), phases_(phases), registry_(registry),
        source_(path, sourceMode()) {}

  /// The method as operators, as far as that is possible without an example. Errors: those of
  /// importModel and of the passes; Usage for names of modules and weights that the pipeline text
  /// cannot hold.
  llvm::Expected<Model> flatten(PassContext &context);

  /// The same in normal form, with the answers of `how` in place of types: nothing runs. Errors: as
  /// flatten.
  llvm::Expected<Model> normalise(const NormaliseAgain &how);

  /// The model in normal form, with batch dimensions and merge rules, and the runs on the example
  /// inputs. Errors: as flatten; Usage for inputs that do not fit; those of runSource.
  llvm::Expected<Source> study();

  /// Runs `pipeline` on `model`. Unless `quietly`, it makes the dumps and prints that the options
  /// ask for. Errors: those of the passes.
  llvm::Expected<bool> runPasses(const PassPipeline &pipeline, AnyModel &model,
                                 PassContext &context, bool quietly = false);

  /// How the source runs, as the options say.
  SourceMode sourceMode() const;
  /// The source that runs so.
  SourceCopies &source() { return source_; }

private:
  llvm::Expected<std::vector<c10::IValue>> exampleInputs(const Model &model,
                                                         const std::string &inputs) const;
  llvm::Expected<std::vector<Values>> allExamples(const Model &model, const Values &first) const;
  /// A state of the source that later steps compare with or start from.
  struct Snapshot {
    Model model;
    PassContext context;
  };
  llvm::Error simplifyWithTypes(Model &model, PassContext &context,
                                const std::vector<c10::IValue> &inputs, bool quietly = false);
  bool decidesAlike(const Snapshot &flat, const Snapshot &simplified,
                    llvm::ArrayRef<c10::IValue> inputs);
  llvm::Expected<ExampleStudy> runExample(Model &model, PassContext &context,
                                          const std::vector<c10::IValue> &inputs,
                                          const std::string &norms, DecidesAlike decidesAlike);
  llvm::Error explained(llvm::Error error, const Model &model,
                        const std::vector<c10::IValue> &inputs) const;

  const std::string &path_;
  const CompileOptions &options_;
  PassDumps &dumps_;
  Phases &phases_;
  llvm::ArrayRef<PassInfo> registry_; // of the passes that pipelines name
  SourceCopies source_;
};

} // namespace pipec
