# libdeflate of the distribution: CRC-32 with the processor's own instructions. Its static library: nothing to have at run time.
find_path(PIPEC_DEFLATE_INCLUDE libdeflate.h REQUIRED)
find_library(PIPEC_DEFLATE_LIBRARY NAMES libdeflate.a deflate REQUIRED)
mark_as_advanced(PIPEC_DEFLATE_INCLUDE PIPEC_DEFLATE_LIBRARY)
add_library(pipec::sdk_deflate INTERFACE IMPORTED) # defined again by the installed package (pipecConfig.cmake.in)
add_library(sdk_deflate ALIAS pipec::sdk_deflate)
target_include_directories(pipec::sdk_deflate SYSTEM INTERFACE ${PIPEC_DEFLATE_INCLUDE})
target_link_libraries(pipec::sdk_deflate INTERFACE ${PIPEC_DEFLATE_LIBRARY})
