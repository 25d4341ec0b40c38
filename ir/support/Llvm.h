// Calls that LLVM 14 and newer versions spell differently, each wrapped once.
#pragma once

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Config/llvm-config.h"

#if LLVM_VERSION_MAJOR < 16
#include "llvm/ADT/Optional.h"
#else
#include <optional>
#endif

namespace pipec {

/// The type that llvm::json returns for a value that may be absent.
#if LLVM_VERSION_MAJOR < 16
template <typename T> using LlvmOptional = llvm::Optional<T>;
#else
template <typename T> using LlvmOptional = std::optional<T>;
#endif

/// Optional::getValueOr up to 15, value_or since.
template <typename T, typename Default> T valueOr(const LlvmOptional<T> &value, Default otherwise) {
  return value ? *value : static_cast<T>(otherwise);
}

/// StringRef::startswith up to 18, starts_with since 16.
inline bool startsWith(llvm::StringRef text, llvm::StringRef prefix) {
  return text.take_front(prefix.size()) == prefix;
}

/// StringRef::endswith up to 18, ends_with since 16.
inline bool endsWith(llvm::StringRef text, llvm::StringRef suffix) {
  return text.take_back(suffix.size()) == suffix;
}

/// llvm::make_scope_exit up to 21, the constructor of llvm::scope_exit since.
template <typename Body> [[nodiscard]] auto atScopeEnd(Body body) {
#if LLVM_VERSION_MAJOR < 22
  return llvm::make_scope_exit(std::move(body));
#else
  return llvm::scope_exit(std::move(body));
#endif
}

} // namespace pipec
