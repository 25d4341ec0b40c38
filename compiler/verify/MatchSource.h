// An artifact against a model that may be its source, long after the compile.
#pragma once

#include "compiler/Compiler.h"
#include "ir/Model.h"
#include "ir/artifact/ArtifactDir.h"

namespace pipec {

/// What the plan keeps of a compile so that its normalisation can be done again.
Normalisation normalisationOf(const CompileOptions &options, const FormAnswers &forms);
/// The other way: what to ask a compile for, as far as it normalises.
CompileOptions optionsOf(const Plan &plan);

/// One way to normalise without a run.
struct NormaliseAgain {
  TypeAnswers answers;      // instead of an example's
  bool withExample = false; // with the rounds that an example brings
};
/// First the way that the compile went. A model that was merged from stages has nothing left to
/// answer, and a plan does not always tell whether there was an example: others may lead to the
/// same. Errors: BadArtifact.
llvm::Expected<std::vector<NormaliseAgain>> waysToNormalise(const Plan &plan);

/// Compares the artifact with `source` in normal form: the first difference, or nothing. What only
/// a run could show of arguments and results is the plan's word; so is that something is written,
/// which may have been said of a branch that is gone. Errors: those of relink.
llvm::Expected<std::optional<Finding>> compareModel(const Artifact &artifact, Model &source);

} // namespace pipec
