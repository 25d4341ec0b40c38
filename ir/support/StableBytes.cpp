#include "ir/support/StableBytes.h"

#include "ir/support/Llvm.h"

namespace pipec {

void StableBytes::add(llvm::StringRef bytes, std::shared_ptr<const void> owner) {
  std::lock_guard lock(mutex_);
  owners_.push_back(std::move(owner));
  if (entries_.try_emplace(placeOf(bytes)).second)
    totalBytes_ += bytes.size();
}

size_t StableBytes::totalBytes() const {
  std::lock_guard lock(mutex_);
  return totalBytes_;
}

void StableBytes::noteWritten(const FileId &file, uint64_t offset, llvm::StringRef bytes) {
  std::lock_guard lock(mutex_);
  if (file.known() && entries_.count(placeOf(bytes)))
    written_[{file, offset}] = placeOf(bytes);
}

bool StableBytes::anyWritten() const {
  std::lock_guard lock(mutex_);
  return !written_.empty();
}

bool StableBytes::wereWritten(const FileId &file, uint64_t offset, llvm::StringRef bytes) const {
  std::lock_guard lock(mutex_);
  auto found = written_.find({file, offset});
  return found != written_.end() && found->second == placeOf(bytes);
}

bool StableBytes::has(llvm::StringRef bytes) const {
  std::lock_guard lock(mutex_);
  return entries_.count(placeOf(bytes)) != 0;
}

bool StableBytes::digestIfFirst(llvm::StringRef bytes, Compute compute) {
  std::unique_lock lock(mutex_);
  auto found = entries_.find(placeOf(bytes));
  if (found == entries_.end() || std::exchange(found->second.begun, true))
    return false;
  Entry &entry = found->second; // elements of a map stay where they are
  lock.unlock();
  std::string sha256;
  // Also when it throws: those who wait for it must not do so for ever.
  auto end = atScopeEnd([&] {
    std::lock_guard again(mutex_);
    entry.begun = !sha256.empty();
    entry.sha256 = std::move(sha256);
    changed_.notify_all();
  });
  sha256 = compute();
  return true;
}

std::string StableBytes::digestOf(llvm::StringRef bytes, Compute compute) {
  for (;;) {
    digestIfFirst(bytes, compute);
    std::unique_lock lock(mutex_);
    const Entry &entry = entries_.at(placeOf(bytes));
    changed_.wait(lock, [&] { return !entry.begun || !entry.sha256.empty(); });
    if (!entry.sha256.empty())
      return entry.sha256;
  }
}

} // namespace pipec
