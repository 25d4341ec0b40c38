# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes,open-weight-lists | FileCheck %s

# A list whose elements are weights is made of them where it is read, and is no attribute any more; one with another tensor stays.
# CHECK: attribute w parameter float32[4,4] requires_grad
# CHECK: attribute b parameter float32[4] requires_grad
# CHECK-NOT: attribute flat
# CHECK: attribute other value List[Tensor]
# CHECK: graph(%x : Tensor,
# CHECK: %[[FLAT:[0-9]+]] : Tensor[] = prim::ListConstruct(%w, %b)
# CHECK: prim::ListUnpack(%[[FLAT]])
# CHECK: return

# It does nothing a second time.
# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes,open-weight-lists,open-weight-lists --print-after open-weight-lists 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
# TWICE: # after open-weight-lists{{$}}
# TWICE: # after open-weight-lists: no change

#! attribute w parameter float32[4,4] requires_grad storage=0 data=seed(1)
#! attribute b parameter float32[4] requires_grad storage=1 data=seed(2)
#! attribute flat value List[Tensor] value=[{"tensor":"float32[4,4]","storage":0,"requires_grad":true},{"tensor":"float32[4]","storage":1,"requires_grad":true}]
#! attribute other value List[Tensor] value=[{"tensor":"float32[2]","storage":2}]
def forward(self, x: Tensor) -> Tensor:
    w, b = self.flat
    return torch.linear(x, w, b) + self.other[0].sum()
