"""`load` and `Lens`: the face of the library. What a call does stands in the room that it goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from mixlens import arguments
from mixlens.answer import targets_of
from mixlens.attribute import ATTRIBUTIONS
from mixlens.attribute import calls as attribute
from mixlens.attribute.defaults import default_method
from mixlens.budget import Plan, planned
from mixlens.compare import compare
from mixlens.errors import UnknownOption
from mixlens.inventory import supports
from mixlens.mixing import MIXING
from mixlens.mixing import calls as mixing
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Attribution, Comparison, LayerMaps, Results, Trace
from mixlens.subject import Subject, examined
from mixlens.subject.check import Check, self_check
from mixlens.subject.several import explained
from mixlens.trace import trace
from mixlens.wrappers import taken_apart


@settled
def load(model: Any = None, tokenizer: Any = None, **options: Any) -> Lens:
    """A lens on a model: a folder, a hub id, or a loaded Hugging Face model with its tokenizer (or its name).

    The model in a pipeline, Trainer, SentenceTransformer, CrossEncoder, PEFT or DataParallel wrapper is taken out.
    Without a model: the embedded sentiment classifier, offline; "mixlens:NAME" names another of `mixlens.embedded`.
    `options` go to `from_pretrained` (dtype, device_map, revision, gguf_file ...). No code of a folder runs unless
    `trust_remote_code=True`. The model is checked (see `Lens.check`) and
    never changed. Raises ModelError and its kin.

    Examples:
        >>> mixlens.load()
        Lens(mixlens default (MiniLM, SST-2): BertForSequenceClassification, 6 layers)
    """
    if model is None or isinstance(model, str) or hasattr(model, "__fspath__"):
        from mixlens.loading import load_named

        model, packaged, name = load_named(None if model is None else str(model), **options)
        return Lens(model, tokenizer if tokenizer is not None else packaged, name=name)
    if options:
        raise UnknownOption(f"expected no options beside a loaded model, got {sorted(options)}; set them when loading")
    return Lens(model, tokenizer)


class Lens:
    """A model under the lens. Each call runs on a shadow that shares the model's tensors; the model stays as it is.

    `subject`: the model with what is known of it, for who writes methods; `spec`, `head`, `name`, `limit` are its.
    """

    @settled
    def __init__(self, model: Any, tokenizer: Any = None, name: str | None = None) -> None:
        given = taken_apart(model, tokenizer)
        self._subject = examined(given.model, given.tokenizer, name, given.pooled)
        self.model, self.tokenizer = self._subject.model, self._subject.tokenizer
        self.spec, self.head = self._subject.spec, self._subject.head
        self.name, self.limit = self._subject.name, self._subject.limit

    @property
    def subject(self) -> Subject:
        """The model as it is now: checked again where it was brought to another dtype or device since."""
        self._subject = self._subject.current()
        return self._subject

    @settled
    def check(self) -> Check:
        """Run the self-check again: per layer the three residuals, and which methods are defined for this model.

        Examples:
            >>> check = lens.check()
            >>> check.passed, check.supports["alti"] is None
            (True, True)
        """
        return replace(self_check(self.model, self.spec, self.name), supports=supports(self.spec, self.head))

    @property
    def self_check_residual(self) -> float:
        """The largest residual found at load, or since the model was brought to another dtype or device."""
        return self.subject.residual

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

        Examples:
            >>> maps = lens.mixing("a deep and meaningful film.", method="value_zeroing")
            >>> maps.scores.shape  # layer, query, key
            torch.Size([6, 8, 8])
            >>> lens.mixing("a deep film.", method="alti", queries=[0]).scores.shape
            torch.Size([6, 1, 6])
        """
        subject = self.subject
        mixing.mixing_method(subject, method, options)
        texts = subject.read(text, truncate)

        def run(numbers: Sequence[int]) -> list[LayerMaps]:
            return mixing.maps_of(
                subject,
                texts.of(numbers),
                method,
                options,
                queries=queries,
                batch_size=batch_size,
                memory=memory,
                progress=reporter(progress),
            )

        return explained(run, texts.each, texts.single, errors == "skip")

    @settled
    @barred
    @arguments.checked
    def attribute(
        self,
        text: Any,
        method: str | None = None,
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
        `"M+mean"`, `"M+sum"` for any mixing method M; None: alti for encoders, for a causal language model head_logit,
        for other causal models saliency. Options of all methods: `readout=` (a row, "mean", "max") and
        `normalize=` (scores without sign sum to 1, the default); of those that read maps: `receptive_field=` (causal
        models, on by default); the rest are the method's own. `batch_size`, `memory`, `truncate`,
        `progress`, `errors`: as in `mixing` (changed texts count as texts; of a path's points, as many as 32 tokens
        hold count as one).
        Raises InputError, MethodError, ModelError, OverBudget.

        Examples:
            >>> attr = lens.attribute("a deep and meaningful film.", method="alti")
            >>> attr.target.label, max(attr.words(), key=lambda word: word.score).text
            ('positive', 'meaningful')
            >>> lens.attribute("a deep film.", method="attcat", target="negative").target.label
            'negative'
            >>> lens.attribute(["a deep film.", "so bad"], method="globenc+rollout")  # doctest: +ELLIPSIS
            [Attribution(globenc+rollout, 6 tokens, ...), Attribution(globenc+rollout, 4 tokens, ...)]
        """
        subject = self.subject
        name = default_method(subject) if method is None else method
        attribute.attribution_method(subject, name, options)
        texts = subject.read(text, truncate)
        targets = targets_of(target, len(texts.each), texts.single)

        def run(numbers: Sequence[int]) -> list[Attribution]:
            goals = [targets[i] for i in numbers]
            ask = attribute.request(
                subject, name, options, goals, texts.of(numbers), batch_size, reporter(progress), memory
            )
            (results,) = attribute.attributions(subject, [ask])
            return results

        return explained(run, texts.each, texts.single, errors == "skip")

    @settled
    @barred
    @arguments.checked
    def trace(
        self,
        prompt: Any,
        answer: Any = None,
        method: str | None = None,
        foil: Any = None,
        *,
        documents: Mapping[str, str] | None = None,
        max_new_tokens: int = 64,
        generate: Mapping[str, Any] | None = None,
        exclude: str | Sequence[str] = (),
        batch_size: int = 32,
        memory: int | str | None = None,
        progress: Progress | bool | None = None,
        **options: Any,
    ) -> Trace:
        """Where the whole answer of a language model comes from: each answer token back to the prompt before it.

        `prompt`: a str, token ids, or chat messages (`[{"role": ..., "content": ...}]`; the tokenizer's template).
        `documents`: texts by name, put where the prompt says `"{documents}"`, else in front (in a chat, of the
        last user's message). `answer`: a str or token ids; None: what the model generates, at most `max_new_tokens`,
        greedily unless `generate`, arguments of its own `generate`, says otherwise. `foil`: another answer as long, or
        one token: why this rather than that. `method`: as in `attribute`, with its default. `exclude`: sources left out
        before rows are divided: "first", "template", or roles of the chat. `batch_size`, `memory`, `progress` and
        `options`: as in `attribute`. One pass for methods of maps and logits, else one call of
        `attribute` for each answer token. Raises InputError, MethodError, ModelError, OverBudget.

        Examples:
            >>> chat = mixlens.load("mixlens:smollm2")  # doctest: +SKIP
            >>> trace = chat.trace("Anna has a dog. Tom has a cat. Anna has a", max_new_tokens=1)  # doctest: +SKIP
            >>> trace.answer.display, trace.top(1)[0].sources[0].unit.text  # doctest: +SKIP
            (('dog',), 'dog')
        """
        return trace(
            self.subject,
            prompt,
            answer,
            method=method,
            foil=foil,
            documents=documents,
            max_new_tokens=max_new_tokens,
            generate=generate,
            exclude=exclude,
            batch_size=batch_size,
            memory=memory,
            progress=reporter(progress),
            options=options,
        )

    @settled
    @arguments.checked
    def plan(
        self,
        text: Any,
        method: str | None = None,
        *,
        batch_size: int = 32,
        memory: int | str | None = None,
        truncate: bool = False,
        maps: bool = False,
        **options: Any,
    ) -> Plan:
        """What `attribute` would take, without doing it; with `maps`, or a name that is a map's alone, `mixing`.

        `method`: None for the default of either. Time class, forward passes a text, batch size and peak bytes;
        `plan.fits` says whether it stays inside `memory`. Estimates from above. Raises InputError, MethodError.

        Examples:
            >>> lens.plan("a deep and meaningful film.", method="blank_out").passes
            8
            >>> lens.plan("a deep and meaningful film.", method="alti", memory="1GB").fits
            True
        """
        subject = self.subject
        lengths = [len(tokens) for tokens in subject.read(text, truncate).require()]
        name = method if method is not None else "globenc" if maps else default_method(subject)
        if maps or (name in MIXING and name not in ATTRIBUTIONS):
            demand = mixing.demand(subject, mixing.mixing_method(subject, name, options), options)
        else:
            demand = attribute.demand(subject, attribute.attribution_method(subject, name, options), options)
        return planned(name, demand, lengths, memory, batch_size)

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

        Examples:
            >>> compared = lens.compare("a deep film.", ["alti", "saliency"])
            >>> list(compared.attributions), sorted(compared.faithfulness)
            (['alti', 'saliency'], ['alti', 'saliency'])
        """
        return compare(
            self.subject,
            text,
            methods,
            target,
            faithfulness=faithfulness,
            maps=maps,
            truncate=truncate,
            progress=reporter(progress),
        )

    @settled
    @arguments.checked
    def mixing_ratio(
        self, text: Any, method: str = "globenc", *, batch_size: int = 32, truncate: bool = False
    ) -> Tensor | list[Tensor]:
        """(layer, query): the share of each token's new vector that comes from other tokens (Modarressi 2022, Eq. 8).

        `method`: norm, norm_res, norm_resln (post-LN) or globenc. Raises UnknownMethod, Undefined.

        Examples:
            >>> lens.mixing_ratio("a deep film.").shape
            torch.Size([6, 6])
        """
        texts = self.subject.read(text, truncate)
        ratios = mixing.ratios(self.subject, texts.require(), method, batch_size)
        return ratios[0] if texts.single else ratios

    @settled
    @arguments.checked
    def output_statistics(self, texts: Any, *, batch_size: int = 32) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each layer's output over all tokens, each (layer, dim), in float64.

        What `value_zeroing` takes as `standardize=`; fit them on a sample of some hundred texts.

        Examples:
            >>> statistics = lens.output_statistics(["a deep film.", "so bad"])
            >>> lens.mixing("a dull film", method="value_zeroing", standardize=statistics).scores.shape
            torch.Size([6, 5, 5])
        """
        return mixing.output_statistics(self.subject, self.subject.read(texts).require(), batch_size)

    def __repr__(self) -> str:
        return f"Lens({self.name}: {type(self.model).__name__}, {self._subject.layers} layers)"
