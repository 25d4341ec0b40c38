// The common part of the text forms of models and staged models: arguments, results, tensors.
// Functions are as in PlanText.h.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/text/TextLine.h"

namespace pipec {

// input x : Tensor batch_dim=0 default=1 written tensor=float32[B,8] strides=[8,1] requires_grad
// bytes=64
std::string inputText(const InputSpec &input);
InputSpec parseInput(TextLine &line);

// outputs (0, [1, 2], {"a": 3}, Point(4, 5))
std::string treeText(const OutputTree &tree);
OutputTree parseTree(TextLine &line);

// output 0 : Tensor merge=concat:0 tensor=...
std::string leafText(const OutputLeaf &leaf, size_t index);
OutputLeaf parseLeaf(TextLine &line, size_t expectedIndex);

// batch size=4 fixed; empty when nothing is known
std::string batchText(const Signature &signature);
void parseBatch(TextLine &line, Signature &signature);

/// ` tensor=float32[B,8] strides=[8,1] requires_grad bytes=64`, or nothing if the spec is not
/// known.
std::string specText(const TensorSpec &spec);
TensorSpec parseSpec(TextLine &line);

std::string listText(llvm::ArrayRef<std::string> words);
std::string listText(llvm::ArrayRef<size_t> indices);

/// Reads a type as one token: it contains blanks only inside brackets.
std::string parseType(TextLine &line);

} // namespace pipec
