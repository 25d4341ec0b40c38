// The whole pipeline for people: the passes and the steps between them.
#pragma once

namespace llvm {
class raw_ostream;
}

namespace pipec {

/// Prints the beginning of docs/passes.md: every step of a compile in order.
void printPipelineMarkdown(llvm::raw_ostream &os);

} // namespace pipec
