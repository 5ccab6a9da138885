"""The Jacobians of what stands behind a layer's attention, at the vectors of one pass."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.architectures import Feed, submodule
from mixlens.decompose.block import Block, token_by_token
from mixlens.decompose.jacobian import feed_forward
from mixlens.decompose.linear import Frozen, matrix


def rest(
    block: Block, rows: slice = slice(None)
) -> tuple[Float[Tensor, "batch row dim dim"], Float[Tensor, "batch row dim dim"]]:
    """Jacobians of `finish` by attn_i, and of the layer by x_i at a fixed attn_i, of some query rows.

    Raises Undefined for layers of other sub-blocks than one self attention and one network.
    """
    network, post = block.network(), block.spec.order == "post"

    def at(path: str | None) -> tuple[Frozen, Tensor, Tensor]:
        assert path is not None
        before, after = block.norms[path]
        return block.norm(path), before[:, rows], after[:, rows]

    path = block.attend.norm if post else network.norm  # the norm in front of the network
    entering = block.result("residual")[:, rows] if path is None else at(path)[2]
    jacobian = _network(block, entering)
    if network.branch_norm is not None:
        last, actual, _ = at(network.branch_norm)
        jacobian = last.push(jacobian, actual)
    eye = torch.eye(jacobian.shape[-1], dtype=jacobian.dtype, device=jacobian.device)
    if post:
        (norm, before, _), (last, actual, _) = at(path), at(network.norm)
        jacobian.diagonal(dim1=-2, dim2=-1).add_(1)
        direct = last.push(norm.pull(jacobian, before), actual)
    else:
        if path is not None:
            norm, before, _ = at(path)
            jacobian = norm.pull(jacobian, before)
        direct = jacobian + eye
    through = eye.expand_as(direct) if block.spec.order == "parallel" else direct
    if block.attend.branch_norm is not None:
        middle, actual, _ = at(block.attend.branch_norm)
        through = middle.pull(through, actual)
    return through, direct


def _network(block: Block, entering: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch row dim dim"]:
    """The Jacobian of the network, its scale in, at the vectors that it reads."""
    network = block.network()
    if not isinstance(network, Feed):
        jacobian = whole(submodule(block.module, network.module), entering)
    else:
        dim = entering.shape[-1]
        up = [submodule(block.module, path) for path in network.up]
        hidden, weights = [u(entering) for u in up], [matrix(u, dim)[0] for u in up]
        if network.fused:
            hidden, weights = list(hidden[0].chunk(2, -1)), list(weights[0].chunk(2, 0))
        down = matrix(submodule(block.module, network.down), hidden[0].shape[-1])[0]
        jacobian = feed_forward(hidden, weights, submodule(block.module, network.act), down)
    return block.scaled(network, jacobian.mT).mT


def whole(module: torch.nn.Module, entering: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch row dim dim"]:
    """The Jacobian of any token-local module: one backward pass a dimension, of all tokens at once."""
    with torch.enable_grad():
        x = entering.detach().clone().requires_grad_()
        out = token_by_token(module, x)
        rows = [torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for part in out.unbind(-1)]
    return torch.stack(rows, -2)
