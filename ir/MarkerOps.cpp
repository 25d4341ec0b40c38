#include "ir/MarkerOps.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace pipec {

void registerMarkerOps() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: other static destructors may still use the dispatcher.
    static auto *library =
        new torch::Library(torch::Library::FRAGMENT, "pipec", std::nullopt, __FILE__, __LINE__);
    c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
    if (!dispatcher.findSchema({"pipec::cut", ""}))
      library->def(torch::schema("pipec::cut() -> ()", c10::AliasAnalysisKind::CONSERVATIVE),
                   [] {});
    if (!dispatcher.findSchema({"pipec::pipe_split", ""}))
      library->def("pipec::pipe_split(Tensor(a) x) -> Tensor(a)",
                   [](const at::Tensor &x) { return at::Tensor(x); });
  });
}

c10::Symbol cutSymbol() {
  static const c10::Symbol symbol = c10::Symbol::fromQualString("pipec::cut");
  return symbol;
}

c10::Symbol pipeSplitSymbol() {
  static const c10::Symbol symbol = c10::Symbol::fromQualString("pipec::pipe_split");
  return symbol;
}

} // namespace pipec
