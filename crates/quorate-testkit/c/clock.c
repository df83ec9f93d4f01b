/* A wall clock that a test can set, for one server process: loaded into it by LD_PRELOAD.
 *
 * QUORATE_TESTKIT_CLOCK names a file with two numbers of 64 bits, in nanoseconds: what is added to
 * the true time, and the time at which the clock stands still, or zero if it runs. The file is
 * mapped, so that a change counts at once.
 *
 * Only the time of day: what measures spans of time goes on as ever.
 *
 * Besides, such a server sorts texts other than digits backwards, as if it ran in another language:
 * scripts must not depend on that. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *told;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("QUORATE_TESTKIT_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    void *mapped = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) told = mapped;
  }
}

int clock_gettime(clockid_t id, struct timespec *at) {
  /* By the system call itself: the usual way would lead back here. */
  int failed = syscall(SYS_clock_gettime, id, at);
  if (failed || !told || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t stopped_at = told[1];
  int64_t now = stopped_at ? stopped_at : at->tv_sec * 1000000000LL + at->tv_nsec + told[0];
  at->tv_sec = now / 1000000000LL;
  at->tv_nsec = now % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

static int is_digits(const char *text) { return text[strspn(text, "0123456789")] == 0; }

int strcoll(const char *one, const char *other) {
  return is_digits(one) && is_digits(other) ? strcmp(one, other) : strcmp(other, one);
}
