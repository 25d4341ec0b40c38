# The front steps on source: calls are inlined, markers found, attributes become inputs.
# RUN: pipe-opt --torchscript %s --passes inline --print-scopes | FileCheck %s --check-prefix=INLINE
# INLINE-NOT: prim::CallMethod
# INLINE: aten::linear({{.*}}) # in fc
# INLINE: aten::linear({{.*}}) # in fc#2
# INLINE-NOT: prim::CallMethod

# RUN: pipe-opt --torchscript %s --passes inline,resolve-markers | FileCheck %s --check-prefix=MARKERS
# MARKERS: pipec::cut()
# MARKERS-NOT: prim::CallFunction

# RUN: pipe-opt --torchscript %s --passes inline,resolve-markers,lower-attributes | FileCheck %s --check-prefix=LOWER
# LOWER: input x : Tensor
# LOWER: attribute fc.weight parameter float32[4,4] requires_grad storage=0
# LOWER-SAME: also=[tied]
# LOWER: graph(%x : Tensor,
# LOWER-NEXT: %fc_weight : Tensor
# LOWER-NOT: prim::GetAttr
# LOWER: pipec::cut()

#! attribute fc.weight parameter float32[4,4] requires_grad data=seed(1) also=[tied]
#! function
def pipe_split(x: Tensor) -> Tensor:
    return x
#! module fc
def forward(self, x: Tensor) -> Tensor:
    return torch.linear(x, self.weight)
#! module .
def forward(self, x: Tensor) -> Tensor:
    y = pipe_split(self.fc.forward(x).relu())
    return self.fc.forward(y)
