# RUN: %refused module-in-block pipe-opt --torchscript %s --passes 'inline,lower-attributes,choose-cuts{at=fc}'
#! module fc
def forward(self, x: Tensor) -> Tensor:
    return x.relu()
#! module .
def forward(self, x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        x = self.fc.forward(x.neg())
    return x
