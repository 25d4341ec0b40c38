# RUN: pipe-opt --torchscript %s --passes inline,resolve-markers | FileCheck %s

# With or without a tensor, at top level or inside a branch: where a cut is legal is judged later. The value goes through.
# CHECK-NOT: "pipe_split"
# CHECK: %[[H:[0-9]+]] : Tensor = aten::relu
# CHECK-NOT: prim::CallFunction
# CHECK: pipec::cut()
# CHECK: aten::neg(%[[H]])
# CHECK: prim::If
# CHECK: pipec::cut()
# CHECK-NOT: prim::CallFunction

# Once more changes nothing.
# RUN: pipe-opt --torchscript %s --passes inline,resolve-markers,resolve-markers --print-after resolve-markers 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
# TWICE: # after resolve-markers{{$}}
# TWICE: # after resolve-markers: no change

# A function that computes something is no marker, whatever it is called.
# RUN: not pipe-opt --torchscript %S/Inputs/computing-marker.ts --passes inline,resolve-markers 2>&1 | FileCheck %s --check-prefix=COMPUTES
# COMPUTES: error: {{.*}}pipe_split: expected a function that returns its one tensor argument, or takes and returns nothing, got one that does more
# COMPUTES: help: give your function another name

# RUN: not pipe-opt --torchscript %S/Inputs/two-arguments.ts --passes inline,resolve-markers 2>&1 | FileCheck %s --check-prefix=BAD
# BAD: error: {{.*}}pipe_split takes one tensor and returns it, or takes and returns nothing; got 2 arguments
# BAD: help: write `x = pipe_split(x)`

#! function
def pipe_split(x: Tensor) -> Tensor:
    return x
#! module .
def forward(self, x: Tensor) -> Tensor:
    y = torch.neg(pipe_split(x.relu()))
    if bool(y.sum() > 0):
        y = pipe_split(y)
    return y
