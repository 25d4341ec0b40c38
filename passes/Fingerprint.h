// All that a pass can change, as one text. Two states of a model are compared by it.
#pragma once

#include "ir/text/ModelText.h"
#include "passes/PassContext.h"

namespace pipec {

/// Two fingerprints are equal exactly if graph, module paths, signature, attributes with their
/// elements, and all that passes write into the context are equal. The hash of the elements is not
/// cryptographic, because it only has to catch mistakes. Reads every weight.
std::string fingerprint(const AnyModel &model, const PassContext &context);

} // namespace pipec
