// TRY: the value of an Expected, or the end of the function with its error.
//
//   const Plan plan = TRY(readPlan(directory));
//   TRY(checkPlan(plan));
//
// The first line stands for an Expected, the test that it has a value, and `return
// expected.takeError()`; the second for the test of an llvm::Error and its return. Use it as the
// whole initialiser of a variable, the whole right side of an assignment, or, of an llvm::Error, as
// a statement. The enclosing function or lambda returns llvm::Error or llvm::Expected.
#pragma once

#include "llvm/Support/Error.h"

#include <utility>

namespace pipec::detail {

inline bool hasFailed(llvm::Error &error) { return static_cast<bool>(error); }
template <typename T> bool hasFailed(llvm::Expected<T> &value) { return !value; }

inline llvm::Error failureOf(llvm::Error &error) { return std::move(error); }
template <typename T> llvm::Error failureOf(llvm::Expected<T> &value) { return value.takeError(); }

inline void resultOf(llvm::Error &) {}
template <typename T> T resultOf(llvm::Expected<T> &value) { return std::move(*value); }

} // namespace pipec::detail

/// A GNU statement expression, which GCC and Clang both have: C++20 has no other expression that
/// can end its function.
#define TRY(...)                                                                                   \
  ({                                                                                               \
    auto tried_ = (__VA_ARGS__);                                                                   \
    if (::pipec::detail::hasFailed(tried_))                                                        \
      return ::pipec::detail::failureOf(tried_);                                                   \
    ::pipec::detail::resultOf(tried_);                                                             \
  })
