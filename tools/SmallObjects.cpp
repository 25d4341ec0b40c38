// operator new and delete of a command that builds large graphs: small objects lie in pages of one
// size. A graph's nodes are freed in the order of a hash table; with one heap for all sizes the
// next graph is then scattered over all of it, and every pass over it waits for memory. Here a page
// is filled before the next one is taken, and one that is empty serves any size.
//
//   region  [page][page][page]...    64 KiB each, their heads elsewhere: at one place of each page
//                                    they would push each other out of the processor's cache
//   page    [object][object]...      all of one size, a multiple of 16 up to 512
//
// Everything else, and what the region has no room for, is malloc's.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <sched.h>
#include <sys/mman.h>

namespace {

constexpr size_t kPageBytes = size_t(64) << 10, kPages = size_t(1) << 20;
constexpr size_t kRegionBytes = kPages * kPageBytes; // of addresses
constexpr size_t kStep = 16, kLargest = 512, kClasses = kLargest / kStep;

class SpinLock {
public:
  void lock() {
    for (int tries = 0; flag_.test_and_set(std::memory_order_acquire); ++tries)
      if (tries > 100)
        ::sched_yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

struct FreeObject {
  FreeObject *next;
};

/// The head of a page. In the list of its size while it has room.
struct alignas(64) Page {
  Page *next, *previous;
  FreeObject *free;  // of objects that were used before
  char *fresh, *end; // from the first byte that never was an object
  uint32_t sizeClass, used;

  bool isFull(size_t objectBytes) const { return !free && fresh + objectBytes > end; }
};

/// Pages that no size has. Never given back: the next graph needs them.
class Region {
public:
  /// A page without objects; null when there is none.
  Page *take() {
    std::lock_guard hold(lock_);
    Page *page = empty_;
    if (page) {
      empty_ = page->next;
    } else {
      if ((!begin_ && !reserve()) || taken_ == kPages)
        return nullptr;
      page = &heads_[taken_++];
    }
    *page = {};
    page->fresh = begin_.load(std::memory_order_relaxed) + (page - heads_) * kPageBytes;
    page->end = page->fresh + kPageBytes;
    return page;
  }

  void give(Page *page) {
    std::lock_guard hold(lock_);
    page->next = empty_;
    empty_ = page;
  }

  /// The page that an object lies in; null for malloc's.
  Page *pageOf(void *object) const {
    char *begin = begin_.load(std::memory_order_relaxed);
    const size_t offset = reinterpret_cast<uintptr_t>(object) - reinterpret_cast<uintptr_t>(begin);
    if (!begin || offset >= kRegionBytes)
      return nullptr;
    return &heads_[offset / kPageBytes];
  }

private:
  /// Only addresses: memory comes when it is touched. Where even they are limited (ulimit -v),
  /// malloc serves all.
  bool reserve() {
    if (refused_)
      return false;
    void *memory = ::mmap(nullptr, kRegionBytes + kPages * sizeof(Page), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    refused_ = memory == MAP_FAILED;
    if (refused_)
      return false;
    ::madvise(memory, kRegionBytes, MADV_HUGEPAGE);
    heads_ = reinterpret_cast<Page *>(static_cast<char *>(memory) + kRegionBytes);
    begin_.store(static_cast<char *>(memory), std::memory_order_release);
    return true;
  }

  SpinLock lock_;
  std::atomic<char *> begin_ = nullptr;
  Page *heads_ = nullptr; // of all pages, in order
  size_t taken_ = 0;
  Page *empty_ = nullptr;
  bool refused_ = false;
};

constinit Region region;

/// The pages of one size that have room, oldest first: the first one is being filled.
class SizeClass {
public:
  void *allocate(uint32_t index) {
    const size_t bytes = (index + 1) * kStep;
    std::lock_guard hold(lock_);
    Page *page = first_ ? first_ : open(index);
    if (!page)
      return nullptr;
    void *object = page->free;
    if (page->free) {
      page->free = page->free->next;
    } else {
      object = page->fresh;
      page->fresh += bytes;
    }
    ++page->used;
    if (page->isFull(bytes))
      unlink(page);
    return object;
  }

  void release(Page *page, void *object) {
    const size_t bytes = (page->sizeClass + 1) * kStep;
    std::lock_guard hold(lock_);
    const bool wasFull = page->isFull(bytes);
    page->free = new (object) FreeObject{page->free};
    --page->used;
    if (wasFull)
      link(page);
    if (page->used > 0 || (page == first_ && page == last_))
      return;
    unlink(page);
    region.give(page);
  }

private:
  Page *open(uint32_t index) {
    Page *page = region.take();
    if (!page)
      return nullptr;
    page->sizeClass = index;
    link(page);
    return page;
  }

  void link(Page *page) {
    page->next = nullptr;
    page->previous = last_;
    (last_ ? last_->next : first_) = page;
    last_ = page;
  }

  void unlink(Page *page) {
    (page->previous ? page->previous->next : first_) = page->next;
    (page->next ? page->next->previous : last_) = page->previous;
  }

  SpinLock lock_;
  Page *first_ = nullptr, *last_ = nullptr;
};

constinit SizeClass classes[kClasses];

void *allocate(size_t bytes) {
  if (bytes <= kLargest) {
    const size_t index = bytes == 0 ? 0 : (bytes - 1) / kStep;
    if (void *object = classes[index].allocate(static_cast<uint32_t>(index)))
      return object;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

} // namespace

void *operator new(size_t bytes) {
  for (;;) {
    if (void *object = allocate(bytes))
      return object;
    std::new_handler handler = std::get_new_handler();
    if (!handler)
      throw std::bad_alloc();
    handler();
  }
}

void operator delete(void *object) noexcept {
  if (!object)
    return;
  if (Page *page = region.pageOf(object))
    classes[page->sizeClass].release(page, object);
  else
    std::free(object);
}

void operator delete(void *object, size_t) noexcept { operator delete(object); }
