// Assertions of pipec. The standard assert does nothing here, because LibTorch's headers need
// NDEBUG in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

/// For mistakes in pipec itself, never of the user. Builds with PIPEC_CHECKS print the place and
/// the reason and stop the process. Other builds do not evaluate the condition.
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
