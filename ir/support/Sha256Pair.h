// SHA-256 of one text in two places at once. No library does it: OpenSSL's EVP hashes one stream at
// a time, two of them take 1.57 times the processor time of a compile that writes weights.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipec {

/// Whether this processor has the instructions.
bool canHashPairs();

/// Adds `blocks` blocks of 64 bytes to both states, each of eight words in SHA-256's order.
/// Requires canHashPairs().
void hashPair(uint32_t *a, uint32_t *b, const char *bytes, size_t blocks);

} // namespace pipec
