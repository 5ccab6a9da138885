"""The table of similarity methods: one line a method."""

from __future__ import annotations

from mixlens.similarity.jacobian import Jacobian
from mixlens.similarity.leave import LeaveOut
from mixlens.similarity.method import Similarity
from mixlens.similarity.rows import Rows


def _table(*methods: Similarity) -> dict[str, Similarity]:
    return {m.name: m for m in methods}


SIMILARITIES: dict[str, Similarity] = _table(
    Rows("token_products", "products of the last layer's rows", "Khattab & Zaharia 2020", "one pass"),
    Rows("alti", "the same, followed to the input by ALTI's rollout", "Ferrando 2022", "two passes", preset="alti"),
    Rows("globenc", "the same, by GlobEnc's rollout", "Modarressi 2022", "two passes", preset="globenc"),
    Rows(
        "attention_rollout",
        "the same, by attention rollout",
        "Abnar & Zuidema 2020",
        "two passes",
        preset="attention_rollout",
    ),
    Jacobian("jacobian", "Jacobian times embedding", "Moeller 2023", "a derivative a token"),
    Jacobian(
        "integrated_jacobian",
        "integrated Jacobians from a reference text",
        "Moeller 2023, Eq. 5",
        "a derivative a token and step",
        integrated=True,
    ),
    LeaveOut("leave_out", "what the vector loses without a word", "second difference of the cosine", "one pass a word"),
)
