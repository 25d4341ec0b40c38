# The tools that the tests need, and the ways to add a test. Used by tests/CMakeLists.txt.

# FileCheck, not and lit come from one package, whose layout changes between LLVM versions.
find_program(PIPEC_FILECHECK NAMES FileCheck FileCheck-${LLVM_VERSION_MAJOR} HINTS ${LLVM_TOOLS_BINARY_DIR})
find_program(PIPEC_LIT NAMES lit.py lit lit-${LLVM_VERSION_MAJOR}
  HINTS ${LLVM_INSTALL_PREFIX}/build/utils/lit /usr/lib/llvm-${LLVM_VERSION_MAJOR}/build/utils/lit)
foreach(tool PIPEC_FILECHECK PIPEC_LIT)
  if(NOT ${tool})
    message(FATAL_ERROR "${tool} not found: install llvm-${LLVM_VERSION_MAJOR}-tools, or configure with -DPIPEC_BUILD_TESTS=OFF")
  endif()
endforeach()

# The Python that has the wheel: it makes the models, and compares with PyTorch.
find_program(PIPEC_PYTHON python3 HINTS ${PIPEC_TORCH}/../../../../bin ${PROJECT_SOURCE_DIR}/.venv/bin NO_CACHE)
if(NOT PIPEC_PYTHON)
  message(FATAL_ERROR "no python3: install it, or configure with -DPIPEC_BUILD_TESTS=OFF")
endif()

# What every test sees. Sanitizers: a test asks for memory that is not there; leaks inside LibTorch and its dlopen'ed parts are not ours; tests/support/*.supp says which.
set(PIPEC_TEST_ENVIRONMENT
  "PIPEC_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" "PIPEC_MODELS=${PROJECT_BINARY_DIR}/models" "PIPEC_SOURCE=${PROJECT_SOURCE_DIR}" "PIPEC_PYTHON=${PIPEC_PYTHON}"
  "PYTHONDONTWRITEBYTECODE=1" "LC_ALL=C.UTF-8" "NO_COLOR=1"
  "ASAN_OPTIONS=detect_leaks=1:detect_odr_violation=0:allocator_may_return_null=1" "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1" "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:halt_on_error=1:allocator_may_return_null=1")

# The most seconds of one test. Sanitizers make the slowest, the tests of the runtime, take half an hour on two busy cores.
set(PIPEC_TEST_SECONDS 900)
if(PIPEC_SANITIZE)
  set(PIPEC_TEST_SECONDS 7200)
endif()

# pipec_gtest(NAME SOURCES ... DEPENDS ...): one program of GoogleTest files, one CTest entry. Nothing while it has no sources.
function(pipec_gtest name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    return()
  endif()
  pipec_join_sources(ARG_SOURCES ${name} ${ARG_SOURCES})
  add_executable(${name} ${ARG_SOURCES})
  pipec_share_headers(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${PIPEC_TEST_ENVIRONMENT}" FIXTURES_REQUIRED models TIMEOUT ${PIPEC_TEST_SECONDS})
endfunction()

# pipec_e2e_test(NAME SCRIPT [ARG...]): a script under tests/, run by the Python of the wheel (.py) or bash (.sh) in a directory of its
# own (what an earlier run left may be there), after the models were made. It finds the commands in $PIPEC_BIN and the models in $PIPEC_MODELS. Exit code 77: skipped.
function(pipec_e2e_test name script)
  set(path ${PROJECT_SOURCE_DIR}/tests/${script})
  cmake_path(GET script EXTENSION LAST_ONLY kind)
  if(kind STREQUAL ".py")
    set(run ${PIPEC_PYTHON} ${path})
  else()
    set(run bash ${path})
  endif()
  set(directory ${PROJECT_BINARY_DIR}/tests/${name})
  file(MAKE_DIRECTORY ${directory})
  add_test(NAME ${name} COMMAND ${run} ${ARGN} WORKING_DIRECTORY ${directory})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${PIPEC_TEST_ENVIRONMENT}" FIXTURES_REQUIRED models
    SKIP_RETURN_CODE 77 TIMEOUT ${PIPEC_TEST_SECONDS})
endfunction()
