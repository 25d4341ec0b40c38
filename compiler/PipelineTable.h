// The whole pipeline for people: passes, and the steps between them that are none.
#pragma once

namespace llvm {
class raw_ostream;
}

namespace pipec {

/// The beginning of docs/passes.md: every step of a compile in order.
void printPipelineMarkdown(llvm::raw_ostream &os);

} // namespace pipec
