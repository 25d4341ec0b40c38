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

} // namespace pipec
