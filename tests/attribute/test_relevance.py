"""Relevance rules: each conserves, each against its literal form; whole models against a literal walk."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mixlens
from mixlens.attribute.relevance import rules
from mixlens.attribute.relevance.rules import Linear, join, through_linear, through_product, through_sum
from mixlens.errors import ModelError, Undefined
from models.families import lens, make, model


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The authors' safe_divide, as it stands in their code."""
    den = b.clamp(min=1e-9) + b.clamp(max=1e-9)
    den = den + den.eq(0).type(den.type()) * 1e-9
    return a / den * b.ne(0).type(b.type())


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 7), st.integers(1, 6), st.booleans())
def test_linear_is_the_four_products(seed: int, n: int, wide: int, out: int, biased: bool) -> None:
    x, w, r = numbers(seed, n, wide), numbers(seed + 1, out, wide), numbers(seed + 2, n, out)
    bias = numbers(seed + 3, out) if biased else None
    got = through_linear(r, Linear(w, bias, x, x @ w.T + (0 if bias is None else bias)))
    px, nx, pw, nw = x.clamp_min(0), x.clamp_max(0), w.clamp_min(0), w.clamp_max(0)
    z = px @ pw.T + nx @ nw.T
    s = divide(r, z)
    torch.testing.assert_close(got, px * (s @ pw) + nx * (s @ nw), rtol=1e-6, atol=1e-6 * float(s.abs().max() + 1))


def test_linear_conserves() -> None:
    x, w, r = numbers(0, 3, 5), numbers(1, 4, 5), numbers(2, 3, 4)
    got = through_linear(r, Linear(w, None, x, x @ w.T))
    torch.testing.assert_close(got.sum(-1), r.sum(-1), rtol=1e-6, atol=1e-6)


def test_sum_conserves_and_shares_by_absolute_sums() -> None:
    a, b, r = numbers(0, 3, 5), numbers(1, 3, 5), numbers(2, 3, 5)
    ra, rb = through_sum(r, a, b)
    torch.testing.assert_close(ra.sum() + rb.sum(), r.sum(), rtol=1e-6, atol=1e-6)
    plain = (a * divide(r, a + b)).sum().abs(), (b * divide(r, a + b)).sum().abs()
    torch.testing.assert_close(ra.sum() / r.sum(), plain[0] / (plain[0] + plain[1]), rtol=1e-6, atol=1e-6)


def test_product_conserves_half_to_each() -> None:
    a, b, r = numbers(0, 2, 3, 5), numbers(1, 2, 5, 4), numbers(2, 2, 3, 4)
    ra, rb = through_product(r, a, b)
    torch.testing.assert_close(ra.sum(), 0.5 * r.sum(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rb.sum(), 0.5 * r.sum(), rtol=1e-6, atol=1e-6)


def test_join_conserves() -> None:
    x, r, s = numbers(0, 3, 5), numbers(1, 3, 5), numbers(2, 3, 5)
    torch.testing.assert_close(join(x, r, s).sum(), (r + s).sum(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("b", [[0.0, 4.0, -3.0], [-1e-9, 2e-9, 0.0], [1e-9, -1e-9, 5.0], [0.5, -7.0, 1e-8]])
def test_divide_is_the_authors(b: list[float]) -> None:
    a, divisor = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
    torch.testing.assert_close(rules.divide(a, divisor), divide(a, divisor), rtol=1e-12, atol=0)


@pytest.mark.parametrize("tile", [1, 10, 10**6])
def test_linear_takes_outputs_some_at_a_time(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, r = numbers(0, 3, 5), numbers(1, 7, 5), numbers(2, 3, 7)
    linear = Linear(w, None, x, x @ w.T)
    whole = through_linear(r, linear)
    monkeypatch.setattr(rules, "TILE", tile)
    torch.testing.assert_close(through_linear(r, linear), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tile", [1, 10**6])
def test_linear_knows_zero_from_rounding(dtype: torch.dtype, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output without a positive product passes nothing on, however the halves of its sum are rounded."""
    monkeypatch.setattr(rules, "TILE", tile)
    x, w, r = numbers(0, 40, 50).to(dtype), numbers(1, 70, 50).to(dtype), numbers(2, 40, 70).to(dtype)
    w[::3] = -w[::3].abs()  # every third output: nothing positive of the tokens whose x is positive
    x[::2] = x[::2].abs()
    x[0], w[3] = 1e-3, -1.0  # (their products are many alike, so that sums of both orders round alike)
    w[1] = torch.where(torch.arange(50) == 7, 1e-6, -1.0)  # and one next to nothing is kept, as it is
    got = through_linear(r, Linear(w, None, x, x @ w.T))
    px, nx, pw, nw = (t.double() for t in (x.clamp_min(0), x.clamp_max(0), w.clamp_min(0), w.clamp_max(0)))
    z = px @ pw.T + nx @ nw.T
    assert (z[::2, ::3] == 0).all()
    assert (z[::2, 1] > 0).all()
    s = divide(r.double(), z)
    ways = px[:, None] * pw * s[..., None] + nx[:, None] * nw * s[..., None]  # token, out, in: each part of the sum
    limit = 300 * torch.finfo(dtype).eps * ways.abs().sum(1)  # some 2 * (50 + 70) roundings, 16 times where signs meet
    assert ((got.double() - ways.sum(1)).abs() <= limit).all()


def test_linear_leaves_out_tokens_without_relevance() -> None:
    x, w, r = numbers(0, 4, 5), numbers(1, 7, 5), numbers(2, 4, 7)
    whole = through_linear(r, Linear(w, None, x, x @ w.T))
    r[1:3] = 0
    got = through_linear(r, Linear(w, None, x, x @ w.T))
    torch.testing.assert_close(got[[0, 3]], whole[[0, 3]], rtol=1e-12, atol=1e-12)
    assert (got[1:3] == 0).all()
    assert (through_linear(0 * r, Linear(w, None, x, x @ w.T)) == 0).all()


def literal(bert_model: torch.nn.Module, ids: list[int], index: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Attention relevance of every layer, and that of the input, of a BERT classifier: a walk with the plain rules."""

    def lin(r: torch.Tensor, m: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        px, nx, pw, nw = x.clamp_min(0), x.clamp_max(0), m.weight.clamp_min(0), m.weight.clamp_max(0)
        s = divide(r, px @ pw.T + nx @ nw.T)
        return px * (s @ pw) + nx * (s @ nw)

    bert = bert_model.bert
    heads = bert_model.config.num_attention_heads
    with torch.no_grad():
        x = bert.embeddings(input_ids=torch.tensor([ids]))[0]
        kept = []
        for layer in bert.encoder.layer:
            att = layer.attention
            q, k, v = (m(x) for m in (att.self.query, att.self.key, att.self.value))
            qs, ks, vs = (t.unflatten(-1, (heads, -1)).transpose(0, 1) for t in (q, k, v))
            a = torch.softmax(qs @ ks.transpose(1, 2) * att.self.attention_head_size**-0.5, -1)
            context = (a @ vs).transpose(0, 1).flatten(1)
            dense = att.output.dense(context)
            middle = att.output.LayerNorm(dense + x)
            hidden = layer.intermediate(middle)
            down = layer.output.dense(hidden)
            kept.append((layer, x, qs, ks, vs, a, context, dense, middle, hidden, down))
            x = layer.output.LayerNorm(down + middle)
        pooled = bert.pooler.activation(bert.pooler.dense(x[0]))
        r = torch.zeros(bert_model.config.num_labels, dtype=x.dtype)
        r[index] = 1
        r = lin(lin(r, bert_model.classifier, pooled), bert.pooler.dense, x[0])
        tokens = torch.zeros_like(x)
        tokens[0] = r
        found = []
        for layer, x, qs, ks, vs, a, context, dense, middle, hidden, down in reversed(kept):
            att = layer.attention
            f, res = through_sum(tokens, down, middle)
            f = lin(lin(f, layer.output.dense, hidden), layer.intermediate.dense, middle)
            tokens = middle * (divide(f, middle) + divide(res, middle))
            f, res = through_sum(tokens, dense, x)
            c = lin(f, att.output.dense, context).unflatten(-1, (heads, -1)).transpose(0, 1)
            s = divide(c, a @ vs)
            ra, rv = 0.5 * a * (s @ vs.transpose(1, 2)), 0.5 * vs * (a.transpose(1, 2) @ s)
            found.append(ra)
            s = divide(ra, qs @ ks.transpose(1, 2))
            rq, rk = 0.5 * qs * (s @ ks), 0.5 * ks * (s.transpose(1, 2) @ qs)
            parts = [
                lin(t.transpose(0, 1).flatten(1), m, x)
                for t, m in ((rq, att.self.query), (rk, att.self.key), (rv, att.self.value))
            ]
            inner = x * sum(divide(p, x) for p in parts)
            tokens = x * (divide(inner, x) + divide(res, x))
    return found[::-1], tokens


@pytest.mark.parametrize("index", [0, 1])
def test_against_a_literal_walk(index: int) -> None:
    ids = [5, 17, 8, 44, 23]
    got = lens("bert", "sequence").attribute(ids, "partial_lrp", target=index, normalize=False)
    relevance, start = literal(model("bert", "sequence"), ids, index)
    torch.testing.assert_close(got.scores, relevance[-1].clamp_min(0).mean(0)[0], rtol=1e-7, atol=1e-9)
    every = lens("bert", "sequence").attribute(ids, "trans_att", target=index)
    for one in (got, every):
        assert float(start.sum()) == pytest.approx(one.meta["conserved"], abs=1e-6) == pytest.approx(1, abs=1e-4)


def test_partial_lrp_goes_no_further_than_the_last_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = rules.to_attention

    def counted(*args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        seen.append(1)
        return whole(*args)

    monkeypatch.setattr(rules, "to_attention", counted)
    bert = lens("bert", "sequence")
    bert.attribute([5, 17, 8], "partial_lrp")
    assert len(seen) == 1
    bert.attribute([5, 17, 8], "trans_att")
    assert len(seen) == 1 + bert.model.config.num_hidden_layers


class Scaled(torch.nn.Linear):
    """Half more than its weights say. The decomposition asks for its matrix; the rules take the weights as they are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.5 * super().forward(x)


@pytest.mark.parametrize("part", ["attention.output.dense", "intermediate.dense", "output.dense"])
@pytest.mark.parametrize(("layer", "methods"), [(1, ["trans_att"]), (-1, ["trans_att", "partial_lrp"])])
def test_relevance_that_is_lost_is_an_error(part: str, layer: int, methods: list[str]) -> None:
    changed = make("bert", "sequence")
    changed.bert.encoder.layer[layer].get_submodule(part).__class__ = Scaled
    other = mixlens.load(changed)
    assert other.attribute([5, 17, 8], "alti").scores.isfinite().all()  # an exact decomposition all the same
    for method in methods:
        with pytest.raises(ModelError, match=r"relevance to sum to 1 on its way down for .*, got .*use grad_sam"):
            other.attribute([5, 17, 8], method)


def test_batch_is_each_alone() -> None:
    bert = lens("bert", "sequence")
    texts = [[5, 17, 8, 44, 23], [9, 3, 30]]
    for text, both in zip(texts, bert.attribute(texts, "trans_att"), strict=True):
        torch.testing.assert_close(both.scores, bert.attribute(text, "trans_att").scores)


def test_zero_cls() -> None:
    got = lens("bert", "sequence").attribute([5, 17, 8], "trans_att", zero_cls=True)
    assert got.scores[0] == 0
    assert float(got.scores.sum()) == pytest.approx(1)


def test_refusals_name_what_has_no_rule() -> None:
    bert = lens("bert", "sequence")
    with pytest.raises(Undefined, match="propagates one logit"):
        bert.attribute([5, 17, 8], "trans_att", target=mixlens.Target(0, foil=1))
    with pytest.raises(Undefined, match="propagates one logit"):
        bert.attribute([5, 17, 8], "trans_att", target=mixlens.Target(0, of="prob"))
    with pytest.raises(Undefined, match="pre-LN"):
        lens("gpt2", "causal").attribute([5, 17, 8], "trans_att")
