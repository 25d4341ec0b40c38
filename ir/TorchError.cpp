#include "ir/TorchError.h"

#include "llvm/ADT/StringRef.h"

#include <c10/util/Exception.h>

#include <new>

namespace pipec {

namespace {

/// LibTorch's messages may carry a C++ trace or several screens: keep what a user can act on.
std::string firstScreen(llvm::StringRef text) {
  text = text.split("\nException raised from").first.rtrim();
  constexpr size_t kLimit = 2000;
  return (text.size() > kLimit ? text.take_front(kLimit).str() + " ..." : text.str());
}

bool saysOutOfMemory(llvm::StringRef text) {
  return text.contains("can't allocate memory") || text.contains("out of memory");
}

} // namespace

llvm::Error guardTorchVoid(ExitCode code, const std::string &doing,
                           llvm::function_ref<void()> body) {
  std::string what;
  try {
    body();
    return llvm::Error::success();
  } catch (const c10::Error &error) {
    what = error.what_without_backtrace();
  } catch (const std::bad_alloc &) {
    return makeError(ExitCode::OutOfMemory, doing + ": out of memory");
  } catch (const std::exception &error) {
    what = error.what();
  } catch (...) {
    what = "unknown exception";
  }
  if (saysOutOfMemory(what))
    code = ExitCode::OutOfMemory;
  return makeError(code, doing + ": " + firstScreen(what));
}

llvm::Error guardTorchError(ExitCode code, const std::string &doing,
                            llvm::function_ref<llvm::Error()> body) {
  // No llvm::Error is alive while the body may throw.
  std::optional<llvm::Error> own;
  if (llvm::Error error = guardTorchVoid(code, doing, [&] { own.emplace(body()); }))
    return error;
  return std::move(*own);
}

} // namespace pipec
