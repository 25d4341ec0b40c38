# Language, warnings, build types, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev CACHE STRING "" FORCE)
endif()
# Asserts on and line tables only: LibTorch's headers with full debug information take twice as long to compile.
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
set(CMAKE_C_FLAGS_DEV "-O1 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# LibTorch's libraries are release builds, and some of its classes (at::RecordFunction) have other members without NDEBUG: code that
# includes its headers must define it in every build type. Our own checks hang on PIPEC_CHECKS.
add_compile_definitions(NDEBUG)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(PIPEC_CHECKS)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror=unused-result -Werror=switch -Wno-unused-parameter -Wno-redundant-move)
if(PIPEC_WERROR)
  add_compile_options(-Werror)
endif()
if(PIPEC_SANITIZE)
  add_compile_options(-fsanitize=${PIPEC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize=vptr)
  add_link_options(-fsanitize=${PIPEC_SANITIZE})
endif()

find_program(PIPEC_CCACHE ccache)
if(PIPEC_CCACHE)
  # base_dir: a second clone in another directory finds what the first compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${PIPEC_CCACHE})
  add_compile_options(-fpch-preprocess) # without it ccache does not see into a precompiled header
endif()
