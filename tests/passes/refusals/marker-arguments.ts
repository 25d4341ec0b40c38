# RUN: %refused marker-arguments pipe-opt --torchscript %s --passes inline,resolve-markers
#! function
def pipe_split(x: Tensor, y: Tensor) -> Tensor:
    return x
#! module .
def forward(self, x: Tensor) -> Tensor:
    return pipe_split(x, x)
