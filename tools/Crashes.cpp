#include "tools/Crashes.h"

#include "ir/UnfinishedOutputs.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIPEC_SANITIZED 1
#else
#define PIPEC_SANITIZED 0
#endif

namespace pipec {
namespace {

/// The signal's number, and a line for every output that was not finished.
constexpr char kVariable[] = "PIPEC_AFTER_CRASH";
constexpr size_t kStack = 64 << 10;

// What the handler needs, made before: it may not allocate.
char **arguments = nullptr;
char **environment = nullptr; // its first entry is `state`
char state[32 << 10];
bool isAfterCrash = false;

size_t appendTo(size_t end, const char *text) {
  const size_t size = std::strlen(text);
  if (end + size >= sizeof state)
    return end;
  std::memcpy(state + end, text, size + 1);
  return end + size;
}

void writeState(int number) {
  char digits[3] = {char('0' + number / 10), char('0' + number % 10), 0};
  size_t end = appendTo(appendTo(appendTo(0, kVariable), "="), digits);
  // The crash may have been in there.
  UnfinishedOutputs &open = unfinishedOutputs();
  if (!open.mutex.try_lock())
    return;
  for (const std::string &path : open.paths)
    end = appendTo(appendTo(end, "\n"), path.c_str());
}

/// In the thread that crashed, with its memory in any state.
void startAgain(int number) {
  if (!isAfterCrash) {
    writeState(number);
    ::execve("/proc/self/exe", arguments, environment);
  }
  constexpr char kText[] = "error: crashed, and again on reporting it\n";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(70);
}

std::string readCrash() {
  const char *value = std::getenv(kVariable);
  if (!value)
    return "";
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(value).split(lines, '\n');
  int number = 0;
  if (lines[0].getAsInteger(10, number))
    return "";
  for (llvm::StringRef path : llvm::drop_begin(lines))
    removeTree(path.str());
  std::string text =
      fmt::format("{} (signal {})", llvm::StringRef(::strsignal(number)).lower(), number);
  ::unsetenv(kVariable);
  return text;
}

} // namespace

void handleCrashes(char **argv) {
  isAfterCrash = !crashBefore().empty();
  if (PIPEC_SANITIZED)
    return;
  arguments = argv;
  size_t count = 0;
  while (environ[count])
    ++count;
  environment = new char *[count + 2];
  environment[0] = state;
  std::copy_n(environ, count + 1, environment + 1);
  unfinishedOutputs(); // made now
  // A stack that has come to its end holds no handler.
  stack_t stack = {};
  stack.ss_sp = new char[kStack];
  stack.ss_size = kStack;
  ::sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = startAgain;
  // Not blocked in the handler: the new image would inherit that.
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    ::sigaction(number, &action, nullptr);
}

const std::string &crashBefore() {
  static const std::string crash = readCrash();
  return crash;
}

void runWhatMayCrash(llvm::function_ref<void()> body) {
  const pid_t child = isAfterCrash ? ::fork() : -1;
  if (child > 0) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return;
  }
  if (child == 0) {
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
      std::signal(number, SIG_DFL);
    body();
    ::_exit(0);
  }
  if (!isAfterCrash)
    body();
}

} // namespace pipec
