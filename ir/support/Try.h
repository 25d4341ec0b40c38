// TRY: the value of an Expected, or the end of the function with its error.
//
//   const Plan plan = TRY(readPlan(directory));
//
// stands for an Expected, the test that it has a value, and `return expected.takeError()`. Use it
// as the whole initialiser of a variable or the whole right side of an assignment. The enclosing
// function or lambda returns llvm::Error or llvm::Expected.
#pragma once

#include "llvm/Support/Error.h"

#include <utility>

/// A GNU statement expression, which GCC and Clang both have: C++20 has no other expression that
/// can end its function.
#define TRY(...)                                                                                   \
  ({                                                                                               \
    auto tried_ = (__VA_ARGS__);                                                                   \
    if (!tried_)                                                                                   \
      return tried_.takeError();                                                                   \
    std::move(*tried_);                                                                            \
  })
