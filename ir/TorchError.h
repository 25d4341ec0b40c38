// The one place where LibTorch's exceptions become llvm::Error. Nothing else in pipec catches them.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <type_traits>

namespace pipec {

/// Runs `body`. An exception becomes an error "<doing>: <LibTorch's message without backtrace>"
/// with `code`, the reason before the traceback of a TorchScript run. The code is OutOfMemory if an
/// allocator gave up, and Other if a GPU failed. Use it around each call into LibTorch that may
/// fail, and as the outermost frame of a thread.
llvm::Error guardTorchVoid(ExitCode code, llvm::StringRef doing, llvm::function_ref<void()> body);

/// The same for a body that can return an error. That error is returned unchanged.
llvm::Error guardTorchError(ExitCode code, llvm::StringRef doing,
                            llvm::function_ref<llvm::Error()> body);

/// The same for a body with a result.
template <typename Body>
auto guardTorch(ExitCode code, llvm::StringRef doing, Body &&body)
    -> llvm::Expected<std::invoke_result_t<Body>> {
  std::optional<std::invoke_result_t<Body>> result;
  if (llvm::Error error = guardTorchVoid(code, doing, [&] { result.emplace(body()); }))
    return std::move(error);
  return std::move(*result);
}

} // namespace pipec
