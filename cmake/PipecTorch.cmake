# Imported targets for the LibTorch inside the wheel. find_package(Torch) of a CUDA wheel stops without a CUDA toolkit; these do not.
if(NOT PIPEC_TORCH)
  file(GLOB torchDirs ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(NOT torchDirs)
    message(FATAL_ERROR "no LibTorch: run tools/test or tools/demo once (they install the wheel into .venv), or pass -DPIPEC_TORCH=DIR")
  endif()
  list(GET torchDirs 0 PIPEC_TORCH)
endif()
if(NOT EXISTS ${PIPEC_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "PIPEC_TORCH=${PIPEC_TORCH} has no lib/libtorch_cpu.so")
endif()
file(STRINGS ${PIPEC_TORCH}/include/torch/headeronly/version.h PIPEC_TORCH_VERSION REGEX "VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" PIPEC_TORCH_VERSION "${PIPEC_TORCH_VERSION}")
list(JOIN PIPEC_TORCH_VERSION . PIPEC_TORCH_VERSION)
find_package(Threads REQUIRED)

foreach(lib c10 torch_cpu)
  add_library(sdk::${lib} SHARED IMPORTED)
  set_target_properties(sdk::${lib} PROPERTIES IMPORTED_LOCATION ${PIPEC_TORCH}/lib/lib${lib}.so)
endforeach()

# torch_cpu registers its operators from static constructors: keep it even where no symbol is used.
set(CMAKE_CXX_LINK_LIBRARY_USING_keep "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
set(CMAKE_CXX_LINK_LIBRARY_USING_keep_SUPPORTED TRUE)
# Imported and in pipec's namespace, so that the installed package can define it again, there without headers (pipecConfig.cmake.in).
add_library(pipec::sdk_torch INTERFACE IMPORTED)
add_library(sdk_torch ALIAS pipec::sdk_torch)
target_include_directories(pipec::sdk_torch SYSTEM INTERFACE ${PIPEC_TORCH}/include ${PIPEC_TORCH}/include/torch/csrc/api/include)
target_link_libraries(pipec::sdk_torch INTERFACE "$<LINK_LIBRARY:keep,sdk::torch_cpu>" sdk::c10 Threads::Threads)
set(CMAKE_BUILD_RPATH ${PIPEC_TORCH}/lib)

# The headers of fmt, for code that must not see LibTorch's libraries; its functions are in pipec_support.
add_library(pipec::sdk_fmt INTERFACE IMPORTED)
add_library(sdk_fmt ALIAS pipec::sdk_fmt)
target_include_directories(pipec::sdk_fmt SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/sdk/fmt)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/sdk/fmt)
file(CREATE_LINK ${PIPEC_TORCH}/include/fmt ${PROJECT_BINARY_DIR}/sdk/fmt/fmt SYMBOLIC)

# GPUs are reached through LibTorch's device-neutral interface, and its GPU library is loaded when a GPU is asked for: neither a CUDA
# toolkit nor libtorch_cuda is needed here.
