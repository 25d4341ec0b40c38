// libpipec_ops.so: the marker pipec::pipe_split as an operator, for models that are traced (a
// scripted function does not survive tracing). Python: torch.ops.load_library("libpipec_ops.so"),
// then torch.ops.pipec.pipe_split(x).
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace {

/// The commands of pipec know the operator already; two registrations would end the process.
torch::Library *registerUnlessKnown() {
  if (c10::Dispatcher::singleton().findSchema({"pipec::pipe_split", ""}))
    return nullptr;
  auto *library =
      new torch::Library(torch::Library::FRAGMENT, "pipec", std::nullopt, __FILE__, __LINE__);
  library->def("pipec::pipe_split(Tensor(a) x) -> Tensor(a)",
               [](const at::Tensor &x) { return at::Tensor(x); });
  return library;
}

// Held by the library for as long as it is loaded.
[[maybe_unused]] const torch::Library *const registration = registerUnlessKnown();

} // namespace
