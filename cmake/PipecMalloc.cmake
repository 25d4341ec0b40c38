# mimalloc of the distribution, for commands that work with LibTorch: nodes of a graph are freed in the order of a hash table, and with the C
# library's one heap for all sizes the next graph lies scattered over it. Sanitizers bring an allocator of their own.
add_library(sdk_malloc INTERFACE)
if(NOT PIPEC_SANITIZE)
  find_path(PIPEC_MIMALLOC_INCLUDE mimalloc.h REQUIRED)
  find_library(PIPEC_MIMALLOC_LIBRARY mimalloc REQUIRED)
  mark_as_advanced(PIPEC_MIMALLOC_INCLUDE PIPEC_MIMALLOC_LIBRARY)
  target_include_directories(sdk_malloc SYSTEM INTERFACE ${PIPEC_MIMALLOC_INCLUDE})
  target_compile_definitions(sdk_malloc INTERFACE PIPEC_MIMALLOC)
  # It takes the place of malloc by being there: no symbol of it need be used.
  target_link_libraries(sdk_malloc INTERFACE
    -Wl,--push-state,--no-as-needed ${PIPEC_MIMALLOC_LIBRARY} -Wl,--pop-state)
endif()
