// Our own assert. The standard one is dead here: LibTorch's headers want NDEBUG in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

/// A mistake of ours, never of the user: in builds with PIPEC_CHECKS says where and why, and stops
/// the process. Without, the condition is not evaluated.
#ifdef PIPEC_CHECKS
#define PIPEC_ASSERT(condition, why)                                                               \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, why);                \
      std::abort();                                                                                \
    }                                                                                              \
  } while (false)
#else
#define PIPEC_ASSERT(condition, why)                                                               \
  do {                                                                                             \
    if (false && (condition)) {                                                                    \
    }                                                                                              \
  } while (false)
#endif
