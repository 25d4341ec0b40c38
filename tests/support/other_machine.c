/* Loaded before a program, it shows another machine: the clock is 40 days behind and runs backwards
   between calls, and folders list their files in the opposite order. For tests of reproducibility. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static time_t other(time_t seconds) {
  static time_t calls;
  return seconds - 40 * 86400 - 7 * __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real)
    real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && clock == CLOCK_REALTIME) /* timeouts run on the monotonic one */
    now->tv_sec = other(now->tv_sec);
  return failed;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out)
    *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec fine;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &fine);
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return 0;
}

/* A folder that is being read: its entries, last first. */
struct Listing {
  DIR *folder;
  struct dirent64 *entries;
  size_t left;
  struct Listing *next;
};
static __thread struct Listing *listings;

struct dirent64 *readdir64(DIR *folder) {
  static struct dirent64 *(*real)(DIR *);
  if (!real)
    real = dlsym(RTLD_NEXT, "readdir64");
  struct Listing *listing = listings;
  while (listing && listing->folder != folder)
    listing = listing->next;
  if (!listing) {
    listing = calloc(1, sizeof *listing);
    listing->folder = folder;
    listing->next = listings;
    listings = listing;
    for (struct dirent64 *entry; (entry = real(folder));) {
      listing->entries = realloc(listing->entries, (listing->left + 1) * sizeof *entry);
      memcpy(&listing->entries[listing->left++], entry, entry->d_reclen);
    }
  }
  return listing->left ? &listing->entries[--listing->left] : NULL;
}

/* On 64-bit Linux both have one layout. */
struct dirent *readdir(DIR *folder) { return (struct dirent *)readdir64(folder); }

int closedir(DIR *folder) {
  static int (*real)(DIR *);
  if (!real)
    real = dlsym(RTLD_NEXT, "closedir");
  for (struct Listing **at = &listings; *at; at = &(*at)->next)
    if ((*at)->folder == folder) {
      struct Listing *gone = *at;
      *at = gone->next;
      free(gone->entries);
      free(gone);
      break;
    }
  return real(folder);
}
