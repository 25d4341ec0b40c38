# RUN: %refused module-as-value pipe-opt --torchscript %s --passes inline,lower-attributes
#! attribute fc.weight parameter float32[4,4] data=seed(1)
#! module fc
def forward(self, x: Tensor) -> Tensor:
    return x
#! module .
def forward(self, x: Tensor) -> Tensor:
    kept = [self.fc]
    return kept[0].forward(x)
