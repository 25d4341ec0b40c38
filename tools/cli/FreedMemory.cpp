#include "tools/cli/FreedMemory.h"

#ifdef PIPEC_MIMALLOC
#include <mimalloc.h>
#include <unistd.h>
#endif

namespace pipec {

#if defined(PIPEC_MIMALLOC) && MI_MALLOC_VERSION < 210
namespace {

/// Blocks of more than 16 MiB become parts of one range of addresses, if there is room. Outside of
/// it each is mapped and unmapped separately. Addresses cost nothing, and without a range nothing
/// changes.
void keepLargeBlocks() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytesOfPage = sysconf(_SC_PAGESIZE);
  if (pages > 0 && bytesOfPage > 0)
    mi_reserve_os_memory(static_cast<size_t>(pages) / 2 * static_cast<size_t>(bytesOfPage),
                         /*commit=*/true, /*allow_large=*/false);
}

} // namespace
#endif

void keepFreedMemory() {
#ifndef PIPEC_MIMALLOC // a sanitizer's allocator
#elif MI_MALLOC_VERSION < 210
  mi_option_set_enabled(mi_option_allow_decommit, false);
  keepLargeBlocks();
#else
  mi_option_set(mi_option_purge_delay, -1);
#endif
}

} // namespace pipec
