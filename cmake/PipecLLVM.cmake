# LLVM Support of the distribution, static, its symbols hidden: LibTorch may carry an LLVM of its own.
find_package(LLVM CONFIG REQUIRED)
if(LLVM_VERSION_MAJOR LESS 14)
  message(FATAL_ERROR "LLVM ${LLVM_VERSION} is too old: 14 or newer is needed")
endif()
add_library(sdk_llvm INTERFACE)
target_include_directories(sdk_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(sdk_llvm INTERFACE LLVMSupport)
target_link_options(sdk_llvm INTERFACE "LINKER:--exclude-libs,ALL")
