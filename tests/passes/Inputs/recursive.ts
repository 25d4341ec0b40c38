#! module .
def forward(self, x: Tensor) -> Tensor:
    return self.forward(x)
