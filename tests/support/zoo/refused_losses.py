"""Models that return their loss and that pipec does not train. `training_zoo.py --strangers ^lo_` expects the refusal in REFUSED of each."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn, rand, randn

from losses import StatefulRnn, Three
from registry import add


class WganGp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 1)

    def critic(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)))

    def forward(self, r: Tensor, f: Tensor, e: Tensor) -> Tensor:
        x = (e * r + (1 - e) * f).requires_grad_(True)
        d = self.critic(x)
        g = torch.autograd.grad([d.sum()], [x], create_graph=True)[0]
        assert g is not None
        return self.critic(f).mean() - self.critic(r).mean() + 10 * ((g.norm(2, 1) - 1) ** 2).mean()


class ParamViewAlias(Three):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6) * 0.3)
        self.heads = nn.ParameterList([nn.Parameter(self.w.data[:3]), nn.Parameter(torch.randn(3, 6))])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.tanh(F.linear(self.a(x), self.w))
        h = torch.cat([F.linear(h, self.heads[0]), F.linear(h, self.heads[1])], 1)
        return self.fin(self.c(h), y)


class ParamsInTupleAttr(Three):
    def __init__(self):
        super().__init__()
        self.ws = (torch.randn(6, 6).requires_grad_(), torch.randn(6, 6).requires_grad_())

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.tanh(self.a(x) @ self.ws[0])
        h = torch.tanh(self.b(h) @ self.ws[1])
        return self.fin(self.c(h), y)


class StatefulRnnNodetach(StatefulRnn):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.g(torch.tanh(self.a(x)), self.h.expand(x.size(0), 6))
        self.h = h.mean(0, keepdim=True)
        return self.fin(self.c(torch.tanh(self.b(h))), y)


REFUSED = {
    "lo_wgan_gp": "the model computes gradients itself",
    "lo_param_view_alias": "are different tensors of one memory",
    "lo_params_in_tuple_attr": "is a Tuple with a trained tensor that is no parameter",
    "lo_stateful_rnn_nodetach": "the model writes a value with a gradient into its state",
}

for name, make, inputs in (
    ("wgan_gp", WganGp, lambda n: (randn(n, 6), randn(n, 6), rand(n, 1))),
    ("param_view_alias", ParamViewAlias, lambda n: (randn(n, 6), randn(n, 6))),
    ("params_in_tuple_attr", ParamsInTupleAttr, lambda n: (randn(n, 6), randn(n, 6))),
    ("stateful_rnn_nodetach", StatefulRnnNodetach, lambda n: (randn(n, 6), randn(n, 6))),
):
    add(f"lo_{name}", make, inputs, train=True, stateful=True)
