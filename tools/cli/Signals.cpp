#include "tools/cli/Signals.h"

#include "ir/support/ShownStream.h"
#include "ir/support/UnfinishedOutputs.h"
#include "tools/cli/Crashes.h"
#include "tools/cli/ProgressLine.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>

namespace pipec {
namespace {

std::atomic<bool> stopping = false;

/// Ends the process in the way the unhandled signal would.
void dieBy(int number) {
  std::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(number);
}

/// The state of the one GracefulStop; null: none exists.
std::atomic<const std::string *> promised = nullptr;
std::atomic<int> asked = 0; // the signal that it waits with

bool isRequest(int number) {
  return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGUSR1 ||
         number == SIGUSR2 || number == SIGXCPU;
}

/// Not through stdio: the main thread may hold its lock.
void writeLine(const std::string &line) {
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

/// Whether the signal is left to a GracefulStop.
bool isLeft(int number) {
  const std::string *promise = promised;
  if (!promise || !isRequest(number) || asked == number)
    return false;
  int none = 0;
  if (asked.compare_exchange_strong(none, number))
    writeLine("note: signal " + std::to_string(number) + ": " + *promise + "\n");
  return true;
}

[[noreturn]] void endBy(int number) {
  stopping = true;
  killChild();
  abandonUnfinishedOutputs();
  endProgress();
  writeLine("error: stopped by signal " + std::to_string(number) + "\n");
  if (number == SIGQUIT) // Ctrl-\ asks for a core file, which only the signal itself leaves
    dieBy(number);
  ::_exit(128 + number);
}

/// Whether the process ends with its artifact in place anyway. Other outputs are not published from
/// now on if it does not.
bool isTooLate(int number) {
  static bool wasTooLate = false; // the next signal ends a process that cannot print its report
  if (!isRequest(number) || wasTooLate)
    return false;
  stopping = true; // before an output fails because of it
  if (stopPublications())
    return false;
  wasTooLate = true;
  stopping = false;
  return true;
}

/// Normal code in a normal thread: locks and file operations are allowed here, unlike in a signal
/// handler.
void waitForSignal(sigset_t signals) {
  int number = 0;
  while (sigwait(&signals, &number) != 0 || isLeft(number) || isTooLate(number)) {
  }
  endBy(number);
}

} // namespace

void handleSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // the write that is too long fails instead, with a message
  sigset_t signals;
  sigemptyset(&signals);
  bool any = false;
  // Besides Ctrl-C, Ctrl-\ and kill: signals that batch systems send before they end a job, and the
  // signal of a power failure.
  for (int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM,
                     SIGVTALRM, SIGPWR, SIGSTKFLT}) {
    struct sigaction current;
    // nohup and background jobs of a shell start with ignored signals; sigwait would take these all
    // the same. An existing handler is that of a preloaded tool.
    if (sigaction(number, nullptr, &current) != 0 || current.sa_handler != SIG_DFL)
      continue;
    sigaddset(&signals, number);
    any = true;
  }
  if (!any)
    return;
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(waitForSignal, signals).detach();
}

void waitIfStopping() {
  while (stopping)
    ::usleep(1000);
}

// The signal thread may be reading the last promise: texts live as long as the process.
GracefulStop::GracefulStop(const std::string &promise) {
  static std::set<std::string> &texts = *new std::set<std::string>;
  promised = &*texts.insert(promise).first;
}
GracefulStop::~GracefulStop() { promised = nullptr; }

bool GracefulStop::isAsked() const { return asked != 0; }

void GracefulStop::end() {
  flushStdout();
  endBy(asked);
}

} // namespace pipec
