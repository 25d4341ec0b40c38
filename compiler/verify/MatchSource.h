// Compares an artifact with a model that may be its source, long after the compile.
#pragma once

#include "compiler/CompileOptions.h"
#include "ir/Model.h"
#include "ir/TypeAnswers.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/Finding.h"

namespace pipec {

/// What the plan keeps of a compile so that its normalisation can be done again.
Normalisation normalisationOf(const CompileOptions &options, const TypeDecisions &decisions);
/// The reverse: the options of a compile that normalises in this way.
CompileOptions optionsOf(const Plan &plan);

/// Before format 1.2 a plan numbered its decisions in the order in which the passes of its pipec
/// took them. Other passes take other decisions, so this pipec cannot use the numbers.
bool decisionsAreNumbers(const Plan &plan);

/// One way to normalise without a run.
struct NormaliseAgain {
  TypeAnswers answers;      // in place of an example's types
  bool withExample = false; // with the simplification that follows an example's types
};
/// The ways to try, in order. The compile's own way is the first, unless decisionsAreNumbers.
/// Others follow, because a model merged from stages leaves no question to types, and because a
/// plan does not always say whether there was an example. Errors: BadArtifact.
llvm::Expected<std::vector<NormaliseAgain>> waysToNormalise(const Plan &plan);

/// Compares the artifact with `source` in normal form; returns the first difference, or nothing.
/// Facts about arguments and results that only a run can show are taken from the plan. So is the
/// fact that something is written, which may come from a removed branch. Errors: those of relink.
llvm::Expected<std::optional<Finding>> compareModel(const Artifact &artifact, Model &source);

} // namespace pipec
