// From the file to a model in normal form, and what running the source shows of it: all that a
// compile does before it cuts.
#pragma once

#include "compiler/ExampleRuns.h"
#include "compiler/FaultyPass.h"
#include "compiler/PassDumps.h"
#include "compiler/Phases.h"
#include "compiler/verify/MatchSource.h"

namespace pipec {

/// The source, understood.
struct Source {
  Model model;                     // in normal form
  std::vector<c10::IValue> inputs; // one value per argument; empty: no example was given
  ExampleStudy study;              // of the source on them
};

/// For one model file and one set of options, which must outlive it, as must the rest.
class FrontEnd {
public:
  FrontEnd(const std::string &path, const CompileOptions &options, PassDumps &dumps, Phases &phases)
      : path_(path), options_(options), dumps_(dumps), phases_(phases),
        faulty_(options.plantedFault) {}

  /// The method as operators, as far as that can be told without an example. Errors: those of
  /// importModel and of the passes; Usage for names of modules and weights that cannot be written.
  llvm::Expected<Model> flatten(TypeAnswers answers = {});

  /// The same in normal form, by the types that `how` answers: nothing is run. Errors: as flatten.
  llvm::Expected<Model> normalise(const NormaliseAgain &how);

  /// In normal form, with batch dimensions and merge rules, and the runs on the example inputs.
  /// Errors: as flatten; Usage for inputs that do not fit; those of runSource.
  llvm::Expected<Source> study();

  /// Runs `pipeline` on `model`, with the dumps and prints that the options ask for unless
  /// `quietly`. Errors: those of the passes.
  llvm::Expected<bool> runPasses(const std::string &pipeline, AnyModel &model,
                                 bool quietly = false);

  const FaultyPass &faulty() const { return faulty_; }

private:
  llvm::Expected<std::vector<c10::IValue>> exampleInputs(const Model &model,
                                                         const std::string &inputs) const;
  llvm::Expected<std::vector<Values>> allExamples(const Model &model, const Values &first) const;
  llvm::Error simplifyWithTypes(Model &model, const std::vector<c10::IValue> &inputs,
                                bool quietly = false);
  bool simplifiesAlike(const Model &flat, const Model &simplified,
                       llvm::ArrayRef<c10::IValue> inputs);
  llvm::Expected<ExampleStudy> runExample(Model &model, const std::vector<c10::IValue> &inputs,
                                          DecidesAlike decidesAlike);
  SourceMode sourceMode() const;
  llvm::Error explained(llvm::Error error, const Model &model,
                        const std::vector<c10::IValue> &inputs) const;

  const std::string &path_;
  const CompileOptions &options_;
  PassDumps &dumps_;
  Phases &phases_;
  FaultyPass faulty_;
};

} // namespace pipec
