# OpenSSL's libcrypto of the distribution: SHA-256 with the processor's own instructions.
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
add_library(sdk_crypto INTERFACE)
target_link_libraries(sdk_crypto INTERFACE OpenSSL::Crypto)
