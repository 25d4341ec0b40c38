#include "tests/support/CountedNews.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace pipec::test {

bool countsNews() { return false; }
size_t newsOfThread() { return 0; }
size_t ownNews() { return 0; }

} // namespace pipec::test

#else

/// The linker's: where the code of this program lies. LibTorch's lies in its libraries.
extern "C" const char __executable_start, etext;

namespace pipec::test {

namespace {

thread_local size_t threadsNews = 0;
std::atomic<size_t> programsNews = 0;

void *countedMemory(std::size_t size, std::size_t alignment, const void *caller) {
  ++threadsNews;
  const char *const at = static_cast<const char *>(caller);
  if (at >= &__executable_start && at < &etext)
    programsNews.fetch_add(1, std::memory_order_relaxed);
  void *memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

} // namespace

bool countsNews() { return true; }
size_t newsOfThread() { return threadsNews; }
size_t ownNews() { return programsNews; }

} // namespace pipec::test

[[gnu::noinline]] void *operator new(std::size_t size) {
  return pipec::test::countedMemory(size, 16, __builtin_return_address(0));
}
[[gnu::noinline]] void *operator new[](std::size_t size) {
  return pipec::test::countedMemory(size, 16, __builtin_return_address(0));
}
[[gnu::noinline]] void *operator new(std::size_t size, std::align_val_t alignment) {
  return pipec::test::countedMemory(size, static_cast<std::size_t>(alignment),
                                    __builtin_return_address(0));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
