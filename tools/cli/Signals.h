// Ctrl-C and similar signals: removes half-written output, then ends the process with 128+n.
// SIGQUIT ends it by the signal itself, which leaves a core file if the system is set up for it.
// Hand-made because llvm/Support/Signals.h also takes signals that nohup ignores, and acts inside
// the signal handler, where no lock may be taken.
#pragma once

#include <string>

namespace pipec {

/// A thread that is made here takes SIGINT, SIGQUIT, SIGTERM, SIGHUP and the signals of batch
/// systems (SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM, SIGPWR, SIGSTKFLT). Signals that were
/// ignored at the start stay ignored. SIGPIPE is ignored. Call it in main before any other thread
/// exists, because threads inherit the blocked signals. Once the process has published an artifact,
/// the first signal that asks it to end is ignored: it ends with its report and exit code 0.
void handleSignals();

/// Does not return once a signal has arrived: the signal thread is ending the process, and failures
/// of this thread are only a consequence.
void waitIfStopping();

/// While it exists, the first signal that asks the process to end (SIGINT, SIGTERM, SIGHUP,
/// SIGUSR1, SIGUSR2, SIGXCPU) only prints `promise` and sets isAsked(): the owner soon calls end().
/// The same signal again ends the process at once; others of these are ignored then, because a
/// launcher adds its own to the user's. One at a time.
class GracefulStop {
public:
  explicit GracefulStop(const std::string &promise);
  ~GracefulStop();
  GracefulStop(const GracefulStop &) = delete;
  GracefulStop &operator=(const GracefulStop &) = delete;

  bool isAsked() const;
  /// Ends the process as the signal would have done.
  [[noreturn]] void end();
};

} // namespace pipec
