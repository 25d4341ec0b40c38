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

# Functions of that name that are no markers are refused: refusals/marker-computes.ts, refusals/marker-arguments.ts.

#! function
def pipe_split(x: Tensor) -> Tensor:
    return x
#! module .
def forward(self, x: Tensor) -> Tensor:
    y = torch.neg(pipe_split(x.relu()))
    if bool(y.sum() > 0):
        y = pipe_split(y)
    return y
