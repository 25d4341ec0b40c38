# One folder, one library: pipec_library(NAME [JIT] [ALONE] SOURCES ... DEPENDS ...).
# JIT: its files see LibTorch's JIT headers, which take 6 to 10 s each to read; see the end of this file.
# ALONE: each file is compiled alone.
function(pipec_library name)
  cmake_parse_arguments(ARG "JIT;ALONE" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_ALONE)
    pipec_join_sources(ARG_SOURCES ${name} ${ARG_SOURCES})
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  string(REPLACE "pipec_" "pipec::" alias ${name}) # as in the installed package
  add_library(${alias} ALIAS ${name})
  if(ARG_JIT)
    pipec_share_headers(${name})
  endif()
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# One command of build/bin: pipec_tool(NAME [JIT] SOURCES ... DEPENDS ...).
function(pipec_tool name)
  cmake_parse_arguments(ARG "JIT" "" "SOURCES;DEPENDS" ${ARGN})
  if(ARG_JIT)
    pipec_join_sources(ARG_SOURCES ${name} ${ARG_SOURCES})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_JIT)
    pipec_share_headers(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()

# LibTorch's headers are read once, with the code of pipec_ir. Even so the templates that they use take 4 s in each file that is
# compiled, and those of LLVM and fmt 1 s, often more than our own code, so five files are compiled as one: pipec_join_sources(OUT NAME
# SOURCE...). A file includes what it needs all the same, and the names in its anonymous namespace differ from those of the other files
# in its folder. (CMake's UNITY_BUILD writes the clone's own path into the joined files, and ccache would not serve them to the next
# clone.) A file with definitions of its own stays alone.
function(pipec_join_sources out name)
  set(result "")
  set(lines "")
  set(joined 0)
  set(batch 0)
  foreach(source IN LISTS ARGN ITEMS "")
    get_source_file_property(definitions "${source}" COMPILE_DEFINITIONS)
    if(source AND definitions)
      list(APPEND result ${source})
      continue()
    endif()
    if(source)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      string(APPEND lines "#include \"${path}\"\n")
      math(EXPR joined "${joined} + 1")
    endif()
    if(lines AND (joined EQUAL 5 OR NOT source))
      set(file ${CMAKE_CURRENT_BINARY_DIR}/joined/${name}_${batch}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${lines}" @ONLY)
      list(APPEND result ${file})
      set(lines "")
      set(joined 0)
      math(EXPR batch "${batch} + 1")
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

function(pipec_share_headers name)
  target_compile_options(${name} PRIVATE -fPIC) # as the header was compiled, also in programs
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(name STREQUAL pipec_ir)
    target_precompile_headers(pipec_ir PRIVATE <torch/csrc/jit/ir/ir.h> <torch/csrc/jit/api/module.h> <fmt/ranges.h> <llvm/Support/Error.h>)
  else()
    target_precompile_headers(${name} REUSE_FROM pipec_ir)
  endif()
endfunction()
