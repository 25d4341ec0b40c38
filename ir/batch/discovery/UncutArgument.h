// An argument that follows the batch in a way that pipec does not cut.
#pragma once

#include "ir/batch/discovery/CutTrial.h"

namespace pipec {

/// Why a model runs at the size of the example only, if an argument has several rows per sample, or
/// the batch's size along several dimensions, and the model runs at another size as soon as this
/// argument follows: a sentence that names it. Empty: no argument is the reason.
std::string uncutArgument(const Signature &signature, const CutTrial &trial, ModelRunner run);

} // namespace pipec
