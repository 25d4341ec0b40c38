// The report of pipe-check: a table of its steps and findings, or the same as JSON.
#pragma once

#include "ir/artifact/ArtifactCheck.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Of many findings of one kind only the first ones.
void printCheck(llvm::raw_ostream &out, const ArtifactCheck &check);

/// ok, id, checks, findings, warnings.
llvm::json::Object checkJson(const ArtifactCheck &check);

} // namespace pipec
