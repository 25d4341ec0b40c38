// Models and staged models as text: our entities around LibTorch's graphs. docs/ir.md describes the
// form, ir/text/ModelParser.h reads it.
//
//   model method=forward mode=infer {
//     input x : Tensor batch_dim=0
//     output 0 : Tensor merge=concat:0
//     attribute w parameter float32[8,4] requires_grad storage=0 sha256=... data=seed(1)
//     graph(%x : Tensor,
//           %w : Tensor):
//       %0 : Tensor = aten::mm(%x, %w)
//       return (%0)
//   }
#pragma once

#include "ir/Model.h"
#include "ir/text/AttributeText.h"

#include <string>
#include <variant>

namespace llvm {
class raw_ostream;
}

namespace pipec {

/// Errors: IO when a data directory cannot be written.
llvm::Error print(const Model &model, llvm::raw_ostream &os, const TextOptions &options = {});
llvm::Error print(const StagedModel &model, llvm::raw_ostream &os, const TextOptions &options = {});

/// The object of a pass: a model or, after the split, its stages.
using AnyModel = std::variant<Model, StagedModel>;
llvm::Expected<std::string> toText(const AnyModel &model, const TextOptions &options = {});

/// Text without digests of weights. It shows whether a pass changed anything, at a cost that does
/// not depend on the weights.
std::string structureText(const AnyModel &model, const std::vector<NodeCost> *costs = nullptr);

} // namespace pipec
