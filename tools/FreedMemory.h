// What becomes of memory that tensors do not need any more.
#pragma once

namespace pipec {

/// From now on the C library keeps freed memory for the next tensor. As it is set otherwise, it
/// gives large blocks back to the system after every operator and has each page zeroed anew when it
/// takes it again, which is 10 to 20 % of a step of a convolutional model. Nothing happens with a C
/// library that has no such setting.
void keepFreedMemory();

} // namespace pipec
