// SHA-256 of one text in two places at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipec {

/// Whether this processor has the instructions for it.
bool canHashPairs();

/// Takes `blocks` blocks of 64 bytes into both states, eight words each as SHA-256 numbers them.
/// Only where canHashPairs().
void hashPair(uint32_t *a, uint32_t *b, const char *bytes, size_t blocks);

} // namespace pipec
