#include "tools/FreedMemory.h"

#ifdef PIPEC_MIMALLOC
#include <mimalloc.h>
#endif

namespace pipec {

void keepFreedMemory() {
#ifndef PIPEC_MIMALLOC // a sanitizer's allocator
#elif MI_MALLOC_VERSION < 210
  mi_option_set_enabled(mi_option_allow_decommit, false);
#else
  mi_option_set(mi_option_purge_delay, -1);
#endif
}

} // namespace pipec
