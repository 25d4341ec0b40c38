// Assertions about llvm::Error and llvm::Expected: EXPECT_TRUE(succeeded(x)),
// EXPECT_TRUE(failedWith(x, ExitCode::Usage, "text")).
#pragma once

#include "ir/support/Error.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace pipec {

/// True when `error` is success; consumes it, and prints it otherwise.
inline testing::AssertionResult succeeded(llvm::Error error) {
  if (!error)
    return testing::AssertionSuccess();
  ErrorText text = describe(std::move(error));
  return testing::AssertionFailure() << "error " << static_cast<int>(text.code) << ": "
                                     << text.message << "\nhelp: " << text.help;
}

/// The value stays readable afterwards.
template <typename T> testing::AssertionResult succeeded(llvm::Expected<T> &value) {
  return value ? testing::AssertionSuccess() : succeeded(value.takeError());
}
template <typename T> testing::AssertionResult succeeded(llvm::Expected<T> &&value) {
  return succeeded(value);
}

/// The value; fails the test by an exception when there is none.
template <typename T> T take(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  throw std::runtime_error(describe(value.takeError()).message);
}

/// The error; fails the test when there is none.
template <typename T> ErrorText errorOf(llvm::Expected<T> value) {
  EXPECT_FALSE(static_cast<bool>(value)) << "expected an error";
  return value ? ErrorText{ExitCode::Success, "", ""} : describe(value.takeError());
}

/// True when `error` has this code, and `part` is in its message or its help; consumes it.
inline testing::AssertionResult failedWith(llvm::Error error, ExitCode code,
                                           const std::string &part) {
  if (!error)
    return testing::AssertionFailure() << "success, expected a failure with \"" << part << '"';
  ErrorText text = describe(std::move(error));
  if (text.code == code && (text.message + "\n" + text.help).find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "error " << static_cast<int>(text.code) << ": " << text.message
         << "\nhelp: " << text.help << "\nexpected error " << static_cast<int>(code) << " with \""
         << part << '"';
}
template <typename T>
testing::AssertionResult failedWith(llvm::Expected<T> value, ExitCode code,
                                    const std::string &part) {
  if (value)
    return testing::AssertionFailure() << "success, expected a failure with \"" << part << '"';
  return failedWith(value.takeError(), code, part);
}

} // namespace pipec
