"""`load` and `Lens`: the whole way from a text to an explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens import arguments
from mixlens.architectures import position_limit, spec_for
from mixlens.attribute import ATTRIBUTIONS
from mixlens.attribute.readout import targets_of
from mixlens.capture.offload import device_of
from mixlens.capture.text import Tokens
from mixlens.comparison import compare
from mixlens.errors import InputError, UnknownOption
from mixlens.heads import head_of
from mixlens.mixing import MIXING, mixing_ratio
from mixlens.process import settled
from mixlens.progress import barred
from mixlens.results import Attribution, Comparison, LayerMaps, Results
from mixlens.runners import attributions
from mixlens.runners.budget import Plan, of_attribution, of_maps, planned, within
from mixlens.runners.maps import asked_rows, layer_maps, mapper
from mixlens.runners.passes import OnBlock, Progress, TextPass, stream, through
from mixlens.runners.request import checked, mixing_facts, request
from mixlens.runners.several import encoded, explained
from mixlens.selfcheck import Check, pad_id, self_check
from mixlens.wrappers import taken_apart


@settled
def load(model: Any = None, tokenizer: Any = None, **options: Any) -> Lens:
    """A lens on a model: a folder, a hub id, or a loaded Hugging Face model with its tokenizer (or its name).

    The model in a pipeline, Trainer, SentenceTransformer, CrossEncoder, PEFT or DataParallel wrapper is taken out.
    Without a model: the embedded sentiment classifier, offline; "mixlens:NAME" names another of `mixlens.embedded`.
    `options` go to `from_pretrained` (dtype, device_map, revision, gguf_file ...). No code of a folder runs unless
    `trust_remote_code=True`. The model is checked (see `Lens.check`) and
    never changed. Raises ModelError and its kin.
    """
    if model is None or isinstance(model, str) or hasattr(model, "__fspath__"):
        from mixlens.loading import load_named

        model, found, name = load_named(None if model is None else str(model), **options)
        return Lens(model, tokenizer if tokenizer is not None else found, name=name)
    if options:
        raise UnknownOption(f"expected no options beside a loaded model, got {sorted(options)}; set them when loading")
    return Lens(model, tokenizer)


class Lens:
    """A model under the lens. Each call runs on a shadow that shares the model's tensors; the model stays as it is."""

    @settled
    def __init__(self, model: Any, tokenizer: Any = None, name: str | None = None) -> None:
        given = taken_apart(model, tokenizer)
        self.model, self.tokenizer = given.model, given.tokenizer
        self.spec = spec_for(self.model.config)
        self.name = name or getattr(self.model.config, "_name_or_path", "") or type(self.model).__name__
        self.limit = position_limit(self.model)
        self._check = self.check().require()
        self._checked_as = self.model.dtype, device_of(self.model)
        self.head = head_of(self.model, self.spec, self.tokenizer, self._check.causal, given.pooled)

    @settled
    def check(self) -> Check:
        """Run the self-check again: per layer the three residuals, and which methods are defined for this model."""
        return self_check(self.model, self.spec, self.name)

    @property
    def self_check_residual(self) -> float:
        """The largest residual found at load, or since the model was brought to another dtype or device."""
        self._check_again()
        return self._check.worst

    @settled
    @barred
    @arguments.checked
    def mixing(
        self,
        text: Any,
        method: str = "globenc",
        *,
        queries: Sequence[int] | None = None,
        batch_size: int = 32,
        memory: int | str | None = None,
        truncate: bool = False,
        progress: Progress | bool | None = None,
        errors: str = "raise",
        **options: Any,
    ) -> LayerMaps | Results[Any]:
        """The maps of one text (or a list of texts): how much of each token goes into each, layer by layer.

        `method`: a name of `mixlens.methods()`; `options` are that method's. `queries`: these rows alone (negatives
        count from the end), with less work; not every method can. `batch_size`: at most so many texts at a time;
        `memory`: bytes or "2GB" to stay inside (None: what is free). `truncate`: cut texts over the model's positions
        (recorded in `meta`) instead of refusing them. `progress`: True for a bar, or a function of (done, in all).
        `errors`: of several texts, "raise" what is wrong with one, with its number, or "skip" it: None stands in its
        place, and a warning says so. Raises InputError, MethodError, ModelError, OverBudget.
        """
        mixing_facts(method, options, self.spec.order)
        texts, single = self._read(text, truncate)

        def run(some: Sequence[int]) -> list[LayerMaps]:
            chosen = [texts[i] for i in some]
            lengths = [len(tokens) for tokens in chosen]
            rows = asked_rows(queries, method, lengths)
            _, size = within(method, of_maps(self, method, options), lengths, memory, batch_size)
            wanted = None if rows is None else lambda i, layer: rows[i]
            ran = self.through(chosen, mapper(method, options), wanted=wanted, batch_size=size, progress=progress)
            return [layer_maps(self, one, method, options, rows[i] if rows else None) for i, one in enumerate(ran)]

        return explained(run, texts, single, errors == "skip")

    @settled
    @barred
    @arguments.checked
    def attribute(
        self,
        text: Any,
        method: str = "alti",
        target: Any = None,
        *,
        batch_size: int = 32,
        memory: int | str | None = None,
        truncate: bool = False,
        progress: Progress | bool | None = None,
        errors: str = "raise",
        **options: Any,
    ) -> Attribution | Results[Any]:
        """One score a token of one text (or a list of texts): which tokens went into the answer.

        `target`: a label, index, token or `mixlens.Target` (with several texts, one for all or a list of one each); the
        prediction by default. `method`: a name of `mixlens.methods()`, or `"M+rollout"`, `"M+flow"`, `"M+layer:k"`,
        `"M+mean"`, `"M+sum"` for any mixing method M. Options of all methods: `readout=` (a row, "mean", "max") and
        `normalize=` (scores without sign sum to 1, the default); of those that read maps: `receptive_field=` (causal
        models, on by default); the rest are the method's own. `batch_size`, `memory`, `truncate`,
        `progress`, `errors`: as in `mixing` (changed texts count as texts; of a way's points, as many as 32 tokens hold
        count as one).
        Raises InputError, MethodError, ModelError, OverBudget.
        """
        checked(self, method, options)
        texts, single = self._read(text, truncate)
        wanted = targets_of(target, len(texts), single)
        how: tuple[Any, ...] = batch_size, progress, memory

        def run(some: Sequence[int]) -> list[Attribution]:
            chosen, goals = [texts[i] for i in some], [wanted[i] for i in some]
            (out,) = attributions(self, [request(self, method, options, goals, chosen, *how)])
            return out

        return explained(run, texts, single, errors == "skip")

    @settled
    @arguments.checked
    def plan(
        self,
        text: Any,
        method: str = "alti",
        *,
        batch_size: int = 32,
        memory: int | str | None = None,
        truncate: bool = False,
        maps: bool = False,
        **options: Any,
    ) -> Plan:
        """What `attribute` would take, without doing it; with `maps`, or a name that is a map's alone, `mixing`.

        Time class, forward passes a text, batch size and peak bytes; `plan.fits` says whether it stays inside
        `memory`. Estimates from above. Raises InputError, MethodError.
        """
        texts, _ = self._encode(text, truncate)
        if maps or (method in MIXING and method not in ATTRIBUTIONS):
            mixing_facts(method, options, self.spec.order)
            cost = of_maps(self, method, options)
        else:
            cost = of_attribution(self, checked(self, method, options), options)
        return planned(method, cost, [len(tokens) for tokens in texts], memory, batch_size)

    @settled
    @barred
    @arguments.checked
    def compare(
        self,
        text: Any,
        methods: str | Sequence[str] | None = None,
        target: Any = None,
        *,
        faithfulness: bool = True,
        maps: bool = False,
        truncate: bool = False,
        progress: Progress | bool | None = None,
    ) -> Comparison:
        """One text explained by several methods side by side; by all that are defined for this model if none is named.

        A method that fails costs the others nothing: `Comparison.skipped` says why it is missing.

        `faithfulness`: with a number each, 0 for what chance reaches and 1 for the best order found; it takes
        about n^2 + 200 passes for n tokens. `maps`: with the layer maps behind each. Raises InputError, MethodError,
        ModelError.
        """
        how: dict[str, Any] = {"faithfulness": faithfulness, "maps": maps, "truncate": truncate, "progress": progress}
        return compare(self, text, methods, target, **how)

    @settled
    @arguments.checked
    def mixing_ratio(
        self, text: Any, method: str = "globenc", *, batch_size: int = 32, truncate: bool = False
    ) -> Tensor | list[Tensor]:
        """(layer, query): the share of each token's new vector that comes from other tokens (Modarressi 2022, Eq. 8).

        `method`: norm, norm_res, norm_resln (post-LN) or globenc. Raises UnknownMethod, Undefined.
        """
        texts, single = self._encode(text, truncate)
        ran = self.through(texts, lambda block: mixing_ratio(block, method), square=False, batch_size=batch_size)
        out = [torch.stack(one.layers) for one in ran]
        return out[0] if single else out

    @settled
    @arguments.checked
    def output_statistics(self, texts: Any, *, batch_size: int = 32) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each layer's output over all tokens, each (layer, dim), in float64.

        What `value_zeroing` takes as `standardize=`; fit them on a sample of some hundred texts.
        """
        encoded, _ = self._encode(texts, False)
        ran = self.through(encoded, lambda block: block.y, square=False, batch_size=batch_size)
        outputs = torch.cat([torch.stack(one.layers) for one in ran], 1).double()
        return outputs.mean(1), outputs.std(1, correction=0)

    def __repr__(self) -> str:
        return f"Lens({self.name}: {type(self.model).__name__}, {len(self._check.layers)} layers)"

    @settled
    def _check_again(self) -> None:
        """What held in float32 need not hold after `lens.model.half()`. Raises SelfCheckFailed, NotFinite."""
        now = self.model.dtype, device_of(self.model)
        if now != self._checked_as:
            self._check = self.check().require()
            self._checked_as = now  # behind the check: one that failed fails at the next call too

    def _encode(self, text: Any, truncate: bool) -> tuple[list[Tokens], bool]:
        """The texts as tokens, and whether it is a single one. Raises InputError."""
        texts, single = self._read(text, truncate)
        for one in texts:
            if isinstance(one, InputError):
                raise one
        return texts, single

    def _read(self, text: Any, truncate: bool) -> tuple[list[Any], bool]:
        """The same, the InputError of a text in a list standing in its place."""
        self._check_again()  # here, where every call begins: before the work
        return encoded(self, text, truncate)

    @settled
    def through(self, texts: Sequence[Tokens], on_block: OnBlock | None, **how: Any) -> list[TextPass]:
        """Pass encoded texts through the model (see `runners.passes.through`)."""
        return through(self.model, self.spec, texts, on_block, pad=self.pad, keys=self.head.keys, **how)

    def stream(self, texts: Sequence[Tokens], make: Any, **how: Any) -> Iterator[Any]:
        """The same batch by batch, for several functions of a layer (see `runners.passes.stream`)."""
        return stream(self.model, self.spec, texts, make, pad=self.pad, keys=self.head.keys, **how)

    @property
    def pad(self) -> int:
        """The token id that fills batches up."""
        return pad_id(self.model, self.tokenizer)
