// A function that spreads numbers over 64 bits. Hand-made because the values of llvm::hash_value
// and std::hash may differ from run to run and from version to version.
#pragma once

#include <cstdint>

namespace pipec {

/// SplitMix64: every bit of the input changes half of the output's.
inline uint64_t splitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

} // namespace pipec
