# OpenSSL's libcrypto of the distribution: SHA-256 with the processor's own instructions.
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
add_library(pipec::sdk_crypto INTERFACE IMPORTED) # defined again by the installed package (pipecConfig.cmake.in)
add_library(sdk_crypto ALIAS pipec::sdk_crypto)
target_link_libraries(pipec::sdk_crypto INTERFACE OpenSSL::Crypto)
