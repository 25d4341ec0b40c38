// Ctrl-C and similar signals: removes half-written output, then ends the process with 128+n.
// SIGQUIT ends it by the signal itself, which leaves a core file if the system is set up for it.
#pragma once

namespace pipec {

/// A thread that is made here takes SIGINT, SIGQUIT, SIGTERM, SIGHUP and the signals of batch
/// systems (SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM, SIGPWR, SIGSTKFLT). Signals that were
/// ignored at the start stay ignored. SIGPIPE is ignored. Call it in main before any other thread
/// exists, because threads inherit the blocked signals.
void handleSignals();

/// Does not return once a signal has arrived: the signal thread is ending the process, and failures
/// of this thread are only a consequence.
void waitIfStopping();

} // namespace pipec
