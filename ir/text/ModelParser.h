// Reads models and staged models from their text form, which ir/text/ModelText.h prints.
#pragma once

#include "ir/text/ModelText.h"

namespace pipec {

struct ParsedModel {
  AnyModel model;
  AttributeNotes notes;        // pass them to TextOptions to print what was read
  std::vector<NodeCost> costs; // the line `costs` of a model, also for TextOptions
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
