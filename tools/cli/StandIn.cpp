// An empty library with the name of PyTorch's Python part. Libraries of operators for Python list
// that part as a dependency, although their operators use nothing of it. The real one cannot be
// loaded without Python.
extern "C" const char *pipecStandIn();
extern "C" const char *pipecStandIn() { return "pipec does not load Python"; }
