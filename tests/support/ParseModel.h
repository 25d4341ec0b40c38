// One model from its text form, for tests.
#pragma once

#include "ir/text/ModelParser.h"

namespace pipec {

template <typename Kind>
llvm::Expected<Kind> parseSingle(llvm::StringRef text, const std::string &directory,
                                 const char *what) {
  llvm::Expected<std::vector<ParsedModel>> all = parseModels(text, directory);
  if (!all)
    return all.takeError();
  if (all->size() != 1 || !std::holds_alternative<Kind>(all->front().model))
    return failf(ExitCode::Unreadable, "expected one {}, got {} models", what, all->size());
  return std::move(std::get<Kind>(all->front().model));
}

/// The only model of a text. Errors: those of parseModels(), and Unreadable if the text does not
/// have exactly one model of that kind.
inline llvm::Expected<Model> parseModel(llvm::StringRef text, const std::string &directory = "") {
  return parseSingle<Model>(text, directory, "model");
}
inline llvm::Expected<StagedModel> parseStagedModel(llvm::StringRef text,
                                                    const std::string &directory = "") {
  return parseSingle<StagedModel>(text, directory, "staged model");
}

} // namespace pipec
