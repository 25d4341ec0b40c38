// Did a pass change anything? All that a pass can change, as one text that two states of a model
// can be compared by.
#pragma once

#include "ir/text/ModelText.h"

namespace pipec {

/// Equal exactly when graph, module paths, signature, attributes with their elements, costs and
/// notes are. Elements are hashed, not cryptographically: this is to catch mistakes. Reads every
/// weight.
std::string fingerprint(const AnyModel &model);

} // namespace pipec
