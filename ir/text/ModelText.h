// Models and staged models as text: our entities around LibTorch's graphs. docs/ir.md describes the
// form.
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
std::string structureText(const Model &model);
std::string structureText(const StagedModel &model);

struct ParsedModel {
  AnyModel model;
  AttributeNotes notes; // pass them to TextOptions to print what was read
};

/// All models of a text, separated by lines `# -----`. Lines that start with # are comments. A
/// model without `input` or `output` lines gets them from its graph. `directory` holds the files of
/// data=@NAME. Errors: Unreadable with line and column, Unsupported, IO.
llvm::Expected<std::vector<ParsedModel>> parseModels(llvm::StringRef text,
                                                     const std::string &directory = "");

/// The only model of a text. Errors: as above, and Unreadable if the text does not have exactly one
/// model of that kind.
llvm::Expected<Model> parseModel(llvm::StringRef text, const std::string &directory = "");
llvm::Expected<StagedModel> parseStagedModel(llvm::StringRef text,
                                             const std::string &directory = "");

} // namespace pipec
