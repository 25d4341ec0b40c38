# RUN: pipe-opt --torchscript %s --passes inline --print-scopes | FileCheck %s

# Calls of modules, of methods and of functions are pasted, also inside branches; a module called twice keeps both calls apart.
# A call of pipe_split stays: resolve-markers reads it.
# CHECK-NOT: prim::CallMethod
# CHECK: aten::linear({{.*}}) # in fc
# CHECK-NOT: "squash"
# CHECK: prim::CallFunction
# CHECK-NOT: "squash"
# CHECK: prim::If
# CHECK: aten::linear({{.*}}) # in fc#2
# CHECK-NOT: "squash"
# CHECK: aten::tanh
# CHECK-NOT: prim::CallMethod

# Once more changes nothing, and so it does where the module is gone already.
# RUN: pipe-opt --torchscript %s --passes inline,inline --print-after inline 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
# RUN: pipe-opt %S/Inputs/relu.ir --passes inline --print-after inline 2>&1 >/dev/null | FileCheck %s --check-prefix=FLAT
# TWICE: # after inline{{$}}
# TWICE: # after inline: no change
# FLAT: # after inline: no change

# A function that calls itself is no pipeline: TorchScript's compiler refuses it before the pass sees it.
# RUN: not pipe-opt --torchscript %S/Inputs/recursive.ts --passes inline 2>&1 | FileCheck %s --check-prefix=RECURSIVE
# RECURSIVE: error: {{.*}}compiling the source
# RECURSIVE: Recursive calls are not supported

#! attribute fc.weight parameter float32[4,4] requires_grad data=seed(1) also=[tied]
#! function
def pipe_split(x: Tensor) -> Tensor:
    return x

def squash(x: Tensor) -> Tensor:
    return torch.tanh(x)
#! module fc
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(x, self.weight)
#! module .
def helper(self, x: Tensor) -> Tensor:
    return squash(x)

def forward(self, x: Tensor) -> Tensor:
    y = pipe_split(self.fc.forward(x).relu())
    if bool(y.sum() > 0):
        y = self.fc.forward(y)
    return self.helper(y)
