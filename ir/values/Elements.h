// The elements of a container.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

bool isContainer(const c10::IValue &value); // a list, tuple or dict

/// The elements of a list or tuple, the values of a dict; none of anything else.
std::vector<c10::IValue> elementsIn(const c10::IValue &value);

} // namespace pipec
