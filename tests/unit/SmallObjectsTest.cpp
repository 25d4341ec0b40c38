// operator new and delete of the commands, which this program has too.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <vector>

namespace {

struct Object {
  unsigned char *bytes;
  size_t size;
  unsigned char mark;
};

Object make(size_t size, unsigned char mark) {
  Object object{static_cast<unsigned char *>(::operator new(size)), size, mark};
  std::memset(object.bytes, mark, size);
  return object;
}

bool isIntact(const Object &object) {
  for (size_t i = 0; i < object.size; ++i)
    if (object.bytes[i] != object.mark)
      return false;
  return true;
}

TEST(SmallObjectsTest, everySizeIsAlignedAndItsOwn) {
  std::vector<Object> objects;
  for (int round = 0; round < 300; ++round)
    for (size_t size = 0; size < 600; size += 7)
      objects.push_back(make(size, static_cast<unsigned char>(objects.size())));
  for (const Object &object : objects) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(object.bytes) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0U);
    EXPECT_TRUE(isIntact(object));
    ::operator delete(object.bytes);
  }
}

/// Objects that one thread makes and another frees, in any order.
TEST(SmallObjectsTest, threadsFreeEachOthersObjects) {
  auto churn = [](unsigned seed, std::vector<Object> objects) {
    std::mt19937 random(seed);
    bool intact = true;
    for (int step = 0; step < 100000; ++step) {
      if (objects.size() < 2000 || random() % 2) {
        objects.push_back(make(random() % 540, static_cast<unsigned char>(random())));
        continue;
      }
      std::swap(objects[random() % objects.size()], objects.back());
      intact &= isIntact(objects.back());
      ::operator delete(objects.back().bytes, objects.back().size);
      objects.pop_back();
    }
    EXPECT_TRUE(intact);
    return objects;
  };
  std::vector<std::vector<Object>> left(4);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<std::vector<Object>>> running;
    for (size_t t = 0; t < left.size(); ++t) // each goes on with what another one left
      running.push_back(std::async(std::launch::async, churn, static_cast<unsigned>(10 * round + t),
                                   std::move(left[(t + 1) % left.size()])));
    for (size_t t = 0; t < left.size(); ++t)
      left[t] = running[t].get();
  }
  for (const std::vector<Object> &objects : left)
    for (const Object &object : objects) {
      EXPECT_TRUE(isIntact(object));
      ::operator delete(object.bytes);
    }
}

} // namespace
