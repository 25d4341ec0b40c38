// Assertions of pipec. The standard assert does nothing here, because LibTorch's headers need
// NDEBUG in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

/// For mistakes in pipec itself, never of the user. Builds with PIPEC_CHECKS print the place and
/// the reason and stop the process. Other builds do not evaluate the condition, nor does a process
/// with PIPEC_UNCHECKED in its environment: a test that passes with and without it shows that
/// nothing hangs on what a condition does.
#ifdef PIPEC_CHECKS
namespace pipec {
inline bool evaluatesAssertions() {
  static const bool evaluates = !std::getenv("PIPEC_UNCHECKED");
  return evaluates;
}
} // namespace pipec

#define PIPEC_ASSERT(condition, why)                                                               \
  do {                                                                                             \
    if (::pipec::evaluatesAssertions() && !(condition)) {                                          \
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
