# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes,open-weight-lists | FileCheck %s

# A list, tuple or dict of weights is made of them where it is read, and is no attribute any more; one with another tensor stays.
# CHECK: attribute w parameter float32[4,4] requires_grad
# CHECK: attribute b parameter float32[4] requires_grad
# CHECK-NOT: attribute flat
# CHECK-NOT: attribute pair
# CHECK-NOT: attribute nested
# CHECK-NOT: attribute named
# CHECK: attribute other value List[Tensor]
# CHECK: attribute mixed value Tuple[Tensor, Tensor]
# CHECK: graph(%x : Tensor,
# CHECK: %[[FLAT:[0-9]+]] : Tensor[] = prim::ListConstruct(%w, %b)
# CHECK: prim::ListUnpack(%[[FLAT]])
# CHECK: %[[PAIR:[0-9]+]] : (Tensor, int) = prim::TupleConstruct(%w, %{{[0-9]+}})
# CHECK: prim::TupleUnpack(%[[PAIR]])
# CHECK: %[[BIASES:[0-9]+]] : Tensor[] = prim::ListConstruct(%b)
# CHECK: %[[LAYER:[0-9]+]] : (Tensor, Tensor[]) = prim::TupleConstruct(%w, %[[BIASES]])
# CHECK: %[[NESTED:[0-9]+]] : (Tensor, Tensor[])[] = prim::ListConstruct(%[[LAYER]])
# CHECK: aten::__getitem__(%[[NESTED]],
# CHECK: %[[NAMED:[0-9]+]] : Dict(str, Tensor) = prim::DictConstruct(%{{[0-9]+}}, %b)
# CHECK: aten::__getitem__(%[[NAMED]],
# CHECK: return

# It does nothing a second time.
# RUN: pipe-opt --torchscript %s --passes inline,lower-attributes,open-weight-lists,open-weight-lists --print-after open-weight-lists 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
# TWICE: # after open-weight-lists{{$}}
# TWICE: # after open-weight-lists: no change

#! attribute w parameter float32[4,4] requires_grad storage=0 data=seed(1)
#! attribute b parameter float32[4] requires_grad storage=1 data=seed(2)
#! attribute flat value List[Tensor] value=[{"tensor":"float32[4,4]","storage":0,"requires_grad":true},{"tensor":"float32[4]","storage":1,"requires_grad":true}]
#! attribute pair value Tuple[Tensor, int] value=[{"tensor":"float32[4,4]","storage":0,"requires_grad":true},3]
#! attribute nested value List[Tuple[Tensor, List[Tensor]]] value=[[{"tensor":"float32[4,4]","storage":0,"requires_grad":true},[{"tensor":"float32[4]","storage":1,"requires_grad":true}]]]
#! attribute named value Dict[str, Tensor] value=[["bias",{"tensor":"float32[4]","storage":1,"requires_grad":true}]]
#! attribute other value List[Tensor] value=[{"tensor":"float32[2]","storage":2}]
#! attribute mixed value Tuple[Tensor, Tensor] value=[{"tensor":"float32[4,4]","storage":0,"requires_grad":true},{"tensor":"float32[2]","storage":2}]
def forward(self, x: Tensor) -> Tensor:
    w, b = self.flat
    v, k = self.pair
    u, biases = self.nested[0]
    x = torch.linear(torch.mm(x, v) * k, u, biases[0]) + self.named["bias"]
    return torch.linear(x, w, b) + self.other[0].sum() + self.mixed[1].sum()
