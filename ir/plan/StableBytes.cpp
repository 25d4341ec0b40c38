#include "ir/plan/StableBytes.h"

namespace pipec {

void StableBytes::add(llvm::StringRef bytes, std::shared_ptr<const void> owner) {
  std::lock_guard lock(mutex_);
  owners_.push_back(std::move(owner));
  entries_.try_emplace(placeOf(bytes));
}

bool StableBytes::has(llvm::StringRef bytes) const {
  std::lock_guard lock(mutex_);
  return entries_.count(placeOf(bytes)) != 0;
}

bool StableBytes::claim(llvm::StringRef bytes) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(placeOf(bytes));
  return found != entries_.end() && !std::exchange(found->second.claimed, true);
}

void StableBytes::setDigest(llvm::StringRef bytes, std::string sha256) {
  std::lock_guard lock(mutex_);
  entries_[placeOf(bytes)].sha256 = std::move(sha256);
  changed_.notify_all();
}

std::string StableBytes::digestOf(llvm::StringRef bytes) const {
  std::unique_lock lock(mutex_);
  const Entry &entry = entries_.at(placeOf(bytes));
  changed_.wait(lock, [&] { return !entry.sha256.empty(); });
  return entry.sha256;
}

} // namespace pipec
