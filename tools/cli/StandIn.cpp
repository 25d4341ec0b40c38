// A library with the name of PyTorch's Python part and nothing in it. Libraries of operators made
// for Python name that part as one that they need, though their operators use nothing of it; the
// real one cannot be loaded without Python.
extern "C" const char *pipecStandIn();
extern "C" const char *pipecStandIn() { return "pipec does not load Python"; }
