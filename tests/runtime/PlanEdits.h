// Everything that an editor can do to one place of a JSON document.
#pragma once

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace pipec {

/// One edit: where, as "stages[1].inputs[0].type", what, as "changed to 7", and the text of the
/// whole document after it.
struct JsonEdit {
  std::string path;
  std::string what;
  std::string document;
};

/// Each scalar gets other values of its own type and one of another; each key is left out; each
/// element of an array is left out, doubled, or changes places with the next one; two neighbours of
/// an array that are objects change the values of one key. No edit gives the document itself.
std::vector<JsonEdit> everyEdit(const llvm::json::Value &document);

} // namespace pipec
