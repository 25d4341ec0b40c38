// Calls of operator new, counted in the whole program that links CountedNews.cpp.
#pragma once

#include <cstddef>

namespace pipec::test {

/// False: a sanitizer has an operator new of its own, and nothing is counted.
bool countsNews();

/// Of the calling thread so far.
size_t newsOfThread();

/// Of all threads so far, those from the code of this program: pipec, with the templates that it
/// instantiates. The others are LibTorch's.
size_t ownNews();

} // namespace pipec::test
