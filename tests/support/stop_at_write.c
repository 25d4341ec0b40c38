/* Loaded before a program, it counts the calls that change checkpoints (paths with "step-") and at the
   N-th one (STOP_AT=N) kills the process before the call is made, or with STOP_ERROR=E makes this and all
   later ones fail with the error number E. With STOP_COUNT=FILE it writes the number of calls at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long calls;

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("STOP_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fprintf(file, "%ld\n", calls);
  fclose(file);
}

/* Nonzero: the call must fail with errno. */
static int stops(const char *path) {
  if (!path || !strstr(path, "step-"))
    return 0;
  const char *at = getenv("STOP_AT"), *error = getenv("STOP_ERROR");
  long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (!at || number < atol(at))
    return 0;
  if (!error)
    kill(getpid(), SIGKILL);
  else
    errno = atoi(error);
  return 1;
}

static int stopsFile(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0)
    return 0;
  path[length] = 0;
  return stops(path);
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t count) {
  REAL(write);
  return stopsFile(fd) ? -1 : real(fd, bytes, count);
}

int fsync(int fd) {
  REAL(fsync);
  return stopsFile(fd) ? -1 : real(fd);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return stops(path) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return stops(to) || stops(from) ? -1 : real(from, to);
}

int renameat2(int fromDirectory, const char *from, int toDirectory, const char *to, unsigned flags) {
  REAL(renameat2);
  return stops(to) ? -1 : real(fromDirectory, from, toDirectory, to, flags);
}

int unlinkat(int directory, const char *path, int flags) {
  REAL(unlinkat);
  return stopsFile(directory) ? -1 : real(directory, path, flags);
}
