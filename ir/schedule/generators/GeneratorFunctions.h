// The functions that Generators.def lists. A file of this folder defines one of them or a family of
// similar ones; this header has no names of its own.
#pragma once

#include "ir/schedule/Generators.h"

namespace pipec {

#define GENERATOR(function) Generator function();
#include "ir/schedule/generators/Generators.def"
#undef GENERATOR

} // namespace pipec
