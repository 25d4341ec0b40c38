# RUN: %refused marker-computes pipe-opt --torchscript %s --passes inline,resolve-markers
#! function
def pipe_split(x: Tensor) -> Tensor:
    return x * 2
#! module .
def forward(self, x: Tensor) -> Tensor:
    return pipe_split(x.relu())
