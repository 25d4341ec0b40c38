#include "ir/TorchError.h"

#include "ir/ScriptTraceback.h"
#include "ir/support/Try.h"
#include "llvm/ADT/Twine.h"

#include <c10/util/Exception.h>

#include <new>

namespace pipec {

namespace {

/// LibTorch's names of its own classes, where users know those of TorchScript.
std::string asUsersSay(std::string text) {
  const std::pair<llvm::StringLiteral, llvm::StringLiteral> names[] = {
      {"GenericList", "List"},  {"GenericDict", "Dict"},       {"TensorList", "List[Tensor]"},
      {"IntList", "List[int]"}, {"DoubleList", "List[float]"}, {"BoolList", "List[bool]"}};
  auto isWord = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (const auto &[own, known] : names)
    for (size_t at = 0; (at = text.find(own.data(), at)) != std::string::npos;) {
      const bool isWhole = (at == 0 || !isWord(at - 1)) && !isWord(at + own.size());
      if (isWhole)
        text.replace(at, own.size(), known.data());
      at += isWhole ? known.size() : own.size();
    }
  return text;
}

/// LibTorch's messages may contain a C++ trace, a traceback before the reason, or several screens.
/// This keeps the part that helps a user.
std::string firstScreen(llvm::StringRef message) {
  message = message.split("\nException raised from").first;
  message = message.split("\nwithin the graph:\n").first; // all of it, where one node is meant
  std::string text = asUsersSay(reasonFirst(message.trim()));
  constexpr size_t kLimit = 2000;
  return text.size() > kLimit ? text.substr(0, kLimit) + " ..." : text;
}

bool saysOutOfMemory(llvm::StringRef text) {
  return text.contains("can't allocate memory") || text.contains("out of memory");
}

/// Whether a device broke down; then the operation does not matter.
bool saysDeviceFailed(llvm::StringRef text) {
  return text.contains("CUDA error") || text.contains("CUDNN_STATUS_") ||
         text.contains("CUBLAS_STATUS_");
}

} // namespace

llvm::Error guardTorchVoid(ExitCode code, llvm::StringRef doing, llvm::function_ref<void()> body) {
  std::string what;
  try {
    body();
    return llvm::Error::success();
  } catch (const c10::Error &error) {
    what = error.what_without_backtrace();
  } catch (const std::bad_alloc &) {
    return makeError(ExitCode::OutOfMemory, (doing + ": out of memory").str());
  } catch (const std::exception &error) {
    what = error.what();
  } catch (...) {
    what = "unknown exception";
  }
  if (saysOutOfMemory(what))
    code = ExitCode::OutOfMemory;
  else if (saysDeviceFailed(what))
    code = ExitCode::Other;
  return makeError(code, (doing + ": " + firstScreen(what)).str());
}

llvm::Error guardTorchError(ExitCode code, llvm::StringRef doing,
                            llvm::function_ref<llvm::Error()> body) {
  // No llvm::Error is alive while the body may throw.
  std::optional<llvm::Error> own;
  TRY(guardTorchVoid(code, doing, [&] { own.emplace(body()); }));
  return std::move(*own);
}

} // namespace pipec
