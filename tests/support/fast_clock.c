/* Loaded before a program, it shows a slow machine: the monotonic clock runs 1,000 times as fast, so what takes 10 ms seems to take
   10 s. Deadlines for waits then lie too far ahead: a thread waits until it is woken. For tests of what must not count time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

enum { kFaster = 1000 };
static const long kSecond = 1000000000;
static long first;

static int (*realClock(void))(clockid_t, struct timespec *) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real)
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  return real;
}

static long nanoseconds(const struct timespec *time) {
  return time->tv_sec * kSecond + time->tv_nsec;
}

__attribute__((constructor)) static void start(void) {
  struct timespec now;
  realClock()(CLOCK_MONOTONIC, &now);
  first = nanoseconds(&now);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = realClock()(clock, now);
  if (!failed && first && clock == CLOCK_MONOTONIC) {
    long shown = first + kFaster * (nanoseconds(now) - first);
    now->tv_sec = shown / kSecond;
    now->tv_nsec = shown % kSecond;
  }
  return failed;
}
