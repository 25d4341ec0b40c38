# One folder, one library: pipec_library(NAME [JIT] SOURCES ... DEPENDS ...).
# JIT: its files see LibTorch's JIT headers, which take 6 to 10 s each to read; see pipec_share_headers.
function(pipec_library name)
  cmake_parse_arguments(ARG "JIT" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_JIT)
    pipec_share_headers(${name})
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# One command of build/bin: pipec_tool(NAME [JIT] SOURCES ... DEPENDS ...).
function(pipec_tool name)
  cmake_parse_arguments(ARG "JIT" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_JIT)
    pipec_share_headers(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()

# LibTorch's headers are read once, with the code of pipec_ir. Even so the templates that they use take 4 s in each file that is
# compiled, more than our own code takes, so a few files are compiled as one. A file includes what it needs all the same, and
# its names that nobody else sees differ from those of its folder.
function(pipec_share_headers name)
  target_compile_options(${name} PRIVATE -fPIC) # as the header was compiled, also in programs
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  if(name STREQUAL pipec_ir)
    target_precompile_headers(pipec_ir PRIVATE <torch/csrc/jit/ir/ir.h> <torch/csrc/jit/api/module.h> <fmt/ranges.h> <llvm/Support/Error.h>)
  else()
    target_precompile_headers(${name} REUSE_FROM pipec_ir)
  endif()
endfunction()
