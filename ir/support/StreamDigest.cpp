#include "ir/support/StreamDigest.h"

namespace pipec {

StreamDigest::StreamDigest(std::shared_ptr<StableBytes> stable, Also also)
    : stable_(std::move(stable)), also_(std::move(also)),
      thread_([this](llvm::StringRef bytes) { hash(bytes); }) {}

void StreamDigest::append(llvm::StringRef bytes) {
  if (stable_->has(bytes))
    thread_.appendStable(bytes);
  else
    thread_.append(bytes);
}

void StreamDigest::hash(llvm::StringRef bytes) {
  auto inSteps = [&](llvm::function_ref<void(llvm::StringRef)> update) {
    constexpr size_t kStep = size_t(128) << 10; // stays in a core's own cache
    for (; !bytes.empty(); bytes = bytes.drop_front(std::min(bytes.size(), kStep))) {
      const llvm::StringRef step = bytes.take_front(kStep);
      if (also_)
        also_(step);
      update(step);
    }
  };
  stable_->digestIfFirst(bytes, [&] {
    Sha256 own;
    inSteps([&](llvm::StringRef step) { Sha256::updateBoth(whole_, own, step); });
    return own.hex();
  });
  inSteps([&](llvm::StringRef step) { whole_.update(step); }); // what is left: all or nothing
}

std::string StreamDigest::finish() {
  thread_.finish();
  return whole_.hex();
}

} // namespace pipec
