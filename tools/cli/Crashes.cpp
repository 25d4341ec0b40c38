#include "tools/cli/Crashes.h"

#include "ir/support/Llvm.h"
#include "ir/support/UnfinishedOutputs.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"
#include "tools/cli/Signals.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIPEC_SANITIZED 1
#else
#define PIPEC_SANITIZED 0
#endif

namespace pipec {
namespace {

/// Holds the process number, which the new image keeps, the signal, and a line for every unfinished
/// output.
constexpr char kVariable[] = "PIPEC_AFTER_CRASH";
constexpr size_t kStack = 64 << 10;
constexpr unsigned kMostSeconds = 300; // for what runs once more
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// The data of the handler, prepared in advance: the handler may not allocate.
char **arguments = nullptr;
char **environment = nullptr; // its first entry is `state`
char state[32 << 10];
char process[24]; // its number
bool isStartedAgain = false;

std::atomic<pid_t> crashed = 0; // the thread that got here first
static_assert(std::atomic<pid_t>::is_always_lock_free);
std::atomic<pid_t> runningAgain = 0;

void waitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

size_t appendTo(size_t end, const char *text) {
  const size_t size = std::strlen(text);
  if (end + size >= sizeof state)
    return end;
  std::memcpy(state + end, text, size + 1);
  return end + size;
}

void writeState(int number) {
  char digits[3] = {char('0' + number / 10), char('0' + number % 10), 0};
  size_t end = appendTo(0, kVariable);
  for (const char *part : std::initializer_list<const char *>{"=", process, " ", digits})
    end = appendTo(end, part);
  unfinishedOutputs().paths.forEachAfterCrash(
      [&](const char *path) { end = appendTo(appendTo(end, "\n"), path); });
}

/// In the thread that crashed, with its memory in any state: only what POSIX allows in a signal
/// handler, and gettid, which is a plain system call.
void startAgain(int number) {
  pid_t first = 0;
  const pid_t self = ::gettid();
  const bool isFirst = crashed.compare_exchange_strong(first, self);
  while (!isFirst && first != self)
    ::pause(); // the new image ends this thread
  if (isFirst && !isStartedAgain) {
    writeState(number);
    ::execve("/proc/self/exe", arguments, environment);
  }
  constexpr char kText[] = "error: crashed, and again on reporting it\n";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(70);
}

/// Only names with our process number: a variable from elsewhere removes nothing.
bool isUnfinishedOutput(llvm::StringRef path) {
  const llvm::StringRef name = llvm::sys::path::filename(path);
  return startsWith(name, ".") && name.contains(fmt::format(".tmp-{}", ::getpid()));
}

Crash readCrash() {
  const char *value = std::getenv(kVariable);
  if (!value)
    return {};
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(value).split(lines, '\n');
  auto [pid, signal] = lines[0].split(' ');
  Crash crash;
  if (pid != std::to_string(::getpid()) || signal.getAsInteger(10, crash.signal))
    return {};
  for (llvm::StringRef path : llvm::drop_begin(lines))
    if (isUnfinishedOutput(path))
      removeTree(path.str());
  ::unsetenv(kVariable);
  crash.text = fmt::format("{} (signal {})", llvm::StringRef(::strsignal(crash.signal)).lower(),
                           crash.signal);
  return crash;
}

/// For the process that runs the work once more.
void endWithParent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(1);
  for (int number : kSignals)
    std::signal(number, SIG_DFL);
  sigset_t all; // of these the other process has a thread that takes them
  sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  ::alarm(kMostSeconds);
}

} // namespace

void handleCrashes(char **argv) {
  isStartedAgain = crashBefore().signal != 0;
  if (PIPEC_SANITIZED)
    return;
  arguments = argv;
  *fmt::format_to_n(process, sizeof process - 1, "{}", ::getpid()).out = 0;
  size_t count = 0;
  while (environ[count])
    ++count;
  environment = new char *[count + 2];
  environment[0] = state;
  std::copy_n(environ, count + 1, environment + 1);
  unfinishedOutputs(); // made now
  // A stack that has overflowed has no room for a handler.
  stack_t stack = {};
  stack.ss_sp = new char[kStack];
  stack.ss_size = kStack;
  ::sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = startAgain;
  // Not blocked in the handler, because the new image would inherit that.
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int number : kSignals)
    ::sigaction(number, &action, nullptr);
}

bool Crash::isOfFile() const { return signal == SIGBUS; }

const Crash &crashBefore() {
  static const Crash crash = readCrash();
  return crash;
}

void runInChild(llvm::function_ref<void()> body) {
  if (crashBefore().signal == 0)
    return body();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    endWithParent(parent);
    body();
    ::_exit(0);
  }
  if (child < 0)
    return;
  runningAgain = child;
  waitFor(child);
  runningAgain = 0;
  waitIfStopping(); // its reproducer is not complete
}

void killChild() {
  const pid_t child = runningAgain;
  if (child == 0)
    return;
  ::kill(child, SIGKILL);
  waitFor(child);
}

} // namespace pipec
