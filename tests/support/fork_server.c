/* Loaded before a program, it makes the program a server: its libraries are loaded and initialised once, which takes
   longer than a small run, and for each request a process is forked, in which the program's main runs.
   A request on stdin is strings that end with a zero: the number of arguments, a file for stdout, a file for stderr, the
   arguments. The reply on stdout is a line with the exit code or the negative signal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int Main(int, char **, char **);

static Main *program;

/* Requests are short and few, so their memory is kept. */
static char *readString(void) {
  char *text = NULL;
  size_t size = 0;
  if (getdelim(&text, &size, 0, stdin) < 0)
    exit(0);
  return text;
}

static void redirect(int descriptor, const char *path, int flags) {
  int file = open(path, flags, 0666);
  if (file < 0 || dup2(file, descriptor) < 0 || close(file) < 0)
    _exit(127);
}

static int serve(int argc, char **argv, char **environment) {
  (void)argc;
  unsetenv("LD_PRELOAD"); /* not for programs that the program starts */
  for (;;) {
    int count = atoi(readString());
    const char *out = readString(), *err = readString();
    char **arguments = calloc(count + 2, sizeof *arguments);
    arguments[0] = argv[0];
    for (int i = 1; i <= count; ++i)
      arguments[i] = readString();
    pid_t child = fork();
    if (child == 0) {
      redirect(0, "/dev/null", O_RDONLY);
      redirect(1, out, O_WRONLY | O_CREAT | O_TRUNC);
      redirect(2, err, O_WRONLY | O_CREAT | O_TRUNC);
      int code = program(count + 1, arguments, environment);
      fflush(NULL);
      _exit(code); /* destructors of libraries take as long as their constructors */
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0)
      return 1;
    printf("%d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
    fflush(stdout);
  }
}

/* Called with main when the libraries are ready. */
int __libc_start_main(Main *real, int argc, char **argv, void (*init)(void), void (*fini)(void), void (*loader)(void), void *stack) {
  __typeof__(&__libc_start_main) start = (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  program = real;
  return start(serve, argc, argv, init, fini, loader, stack);
}
