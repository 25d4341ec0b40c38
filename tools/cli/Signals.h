// Ctrl-C and its kind: half-written output is removed, then the process ends with 128+n, or by
// SIGQUIT itself, which leaves a core file where the system is set up for it.
#pragma once

namespace pipec {

/// SIGINT, SIGQUIT, SIGTERM, SIGHUP and what batch systems send (SIGUSR1, SIGUSR2, SIGXCPU,
/// SIGALRM, SIGVTALRM, SIGPWR, SIGSTKFLT) go to a thread made here; those that were ignored at the
/// start stay ignored. SIGPIPE is ignored. Call it in main before any other thread exists: threads
/// inherit which signals they do not take.
void handleSignals();

/// Does not return once a signal arrived: the thread above is ending the process, and this thread's
/// failures are only its doing.
void waitIfStopping();

} // namespace pipec
