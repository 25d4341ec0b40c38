// Versions that go into a plan and into a reproducer.
#pragma once

#include <string>

namespace pipec {

/// The version of the project, as "0.1.0".
std::string pipecVersion();
/// The version of the LibTorch that this program was built with, as "2.11.0".
std::string torchVersion();

} // namespace pipec
