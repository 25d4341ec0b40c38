# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes | FileCheck %s

# Tensors, and what the method assigns or changes in place, become inputs; a number becomes a constant; a list of tensors is one input
# that says whose memory it shows; a second name of a weight is kept.
# CHECK: input x : Tensor
# CHECK: attribute fc.weight parameter float32[4,4] requires_grad storage=0
# CHECK-SAME: also=[tied]
# CHECK: attribute calls value int written value=3
# CHECK: attribute seen value List[int] written value=[1]
# CHECK: attribute both value List[Tensor] value=[{{.*}}"storage":0,
# CHECK: state calls
# CHECK: graph(%x : Tensor,
# CHECK-NEXT: %fc_weight : Tensor
# CHECK-NOT: prim::GetAttr
# CHECK-NOT: prim::SetAttr
# CHECK: prim::Constant[value=0.5]
# CHECK: return

# What training flags are folded to.
# RUN: pipe-opt --torchscript %s --passes 'inline,lower-attributes{training=true},simplify' | FileCheck %s --check-prefix=TRAINING
# RUN: pipe-opt --torchscript %s --passes 'inline,lower-attributes{training=true,keep-eval=fc},simplify' | FileCheck %s --check-prefix=KEPT
# RUN: pipe-opt --torchscript %s --passes 'inline,lower-attributes{training=false},simplify' | FileCheck %s --check-prefix=KEPT
# TRAINING: aten::neg
# KEPT-NOT: aten::neg

# A second time, and on a model without module, it does nothing.
# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes,lower-attributes --print-after lower-attributes 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
# TWICE: # after lower-attributes{{$}}
# TWICE: # after lower-attributes: no change

# RUN: not pipe-opt --torchscript %s --passes 'inline,lower-attributes{training=perhaps}' 2>&1 | FileCheck %s --check-prefix=OPTION
# OPTION: error: pass lower-attributes: option training: expected one of saved, true, false, got perhaps
# A module used as a value is refused: refusals/module-as-value.ts.

#! attribute fc.weight parameter float32[4,4] requires_grad storage=0 data=seed(1) also=[tied]
#! attribute calls value int value=3
#! attribute seen value List[int] value=[1]
#! attribute slope value float value="0.5"
#! attribute both value List[Tensor] value=[{"tensor":"float32[4,4]","storage":0}]
#! module fc
def forward(self, x: Tensor) -> Tensor:
    y = torch.linear(x, self.weight)
    if self.training:
        y = torch.neg(y)
    return y
#! module .
def forward(self, x: Tensor) -> Tensor:
    self.calls = self.calls + 1
    self.seen.append(self.calls)
    return self.fc.forward(x) * self.slope + self.both[0]
