# One folder, one library: pipec_library(NAME [JIT] SOURCES ... DEPENDS ...).
# JIT: its files see LibTorch's JIT headers, which take 6 to 10 s each to read; they share the one precompiled header of pipec_ir.
function(pipec_library name)
  cmake_parse_arguments(ARG "JIT" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_JIT)
    pipec_share_headers(${name})
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# One command of build/bin: pipec_tool(NAME SOURCES ... DEPENDS ...).
function(pipec_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()

# The header is compiled once, with the code of pipec_ir; a file includes what it needs all the same.
function(pipec_share_headers name)
  if(name STREQUAL pipec_ir)
    target_precompile_headers(pipec_ir PRIVATE <torch/csrc/jit/ir/ir.h> <torch/csrc/jit/api/module.h> <fmt/ranges.h> <llvm/Support/Error.h>)
  else()
    target_precompile_headers(${name} REUSE_FROM pipec_ir)
  endif()
endfunction()
