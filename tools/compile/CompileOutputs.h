// What pipe-compile writes beside the artifact: the case of --record-case, the costs of
// --emit-costs.
#pragma once

#include "tools/case/ArtifactCase.h"
#include "tools/compile/CompileCommand.h"

namespace pipec {

/// The directory of the case, made before the compile, so that an existing one is reported at once;
/// nullopt: none was asked for. Errors: those of CaseWriter::create.
llvm::Expected<std::optional<CaseWriter>> beginCase(const CompileCommand &command);
/// Records the unsplit model of the written artifact. Errors: those of CaseWriter.
llvm::Error finishCase(CaseWriter &writer, const Plan &plan, const CompileCommand &command);

/// Before the compile. Errors: Usage.
llvm::Error refuseExistingCosts(const CompileCommand &command);
/// The file of --emit-costs, if it was asked for. Errors: IO.
llvm::Error writeCosts(const CompileCommand &command, const CompileReport &report);

} // namespace pipec
