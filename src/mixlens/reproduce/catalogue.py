"""Every table and figure of the five papers, and the page that runs it again, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A table or figure: `page`, a name of `REPRODUCTIONS`, or `why` there is none."""

    label: str
    content: str
    page: str = ""
    why: str = ""


_DRAWING = "a drawing: nothing is measured"
_WEIGHTS = "needs weights that no hub could be asked for here; "
_HEAD = (
    "needs a pre-trained masked language model with its head, which cannot be had here (MiniLM has none, and the "
    "embedded masked models were tuned to tell two words apart)"
)


def _with(name: str, model: str) -> str:
    return f"{_WEIGHTS}`mixlens reproduce {name} --model {model}` runs it"


CATALOGUE: dict[str, tuple[Entry, ...]] = {
    "Abnar & Zuidema 2020": (
        Entry("Figure 1", "attention, rollout and flow as graphs", "abnar-figures1-3"),
        Entry("Figure 2", "raw attention of [CLS]", "abnar-figures1-3"),
        Entry("Figure 3", "rollout and flow of [CLS]", "abnar-figures1-3"),
        Entry("Figure 4", "BERT and a masked pronoun (his or her)", why=_HEAD),
        Entry("Table 1", "verb number, blank-out", "abnar-table1"),
        Entry("Table 2", "verb number, gradients", "abnar-table2"),
        Entry("Table 3", "SST-2, gradients", "abnar-table3"),
        Entry(
            "Appendix A.1",
            "single heads",
            why="no numbers are printed; `maps.rollout(head=k)` of per-head maps computes it",
        ),
    ),
    "Modarressi 2022": (
        Entry("Figure 1", "GlobEnc of [CLS], single texts", "globenc-figures1-A4"),
        Entry("Figure 2", "an encoder layer", why=_DRAWING),
        Entry("Table 1", "maps rolled out, against saliency", "globenc-table1"),
        Entry("Figure 3", "rollout, layer by layer", "globenc-figure3"),
        Entry("Figure 4", "single layers against HTA", "globenc-figure4"),
        Entry("Table 2", "single layers and rollout", "globenc-table2"),
        Entry("Figure 5", "outlier weights of the LayerNorms", "globenc-figure5"),
        Entry("Table A.1", "Table 1 for BERT-large", why=_with("globenc-table1", "ROLE=BERT-LARGE")),
        Entry("Table A.2", "Table 1 for ELECTRA", why=_with("globenc-table1", "ROLE=ELECTRA")),
        Entry("Figure A.1", "GlobEnc of [CLS], wrong answers", "globenc-figures1-A4"),
        Entry("Figure A.2", "methods across layers, [CLS]", "globenc-figures1-A4"),
        Entry("Figure A.3", "methods in the last layer", "globenc-figures1-A4"),
        Entry("Figure A.4", "GlobEnc of [CLS], MNLI (here SNLI)", "globenc-figures1-A4"),
        Entry("Figure A.5", "the same, ELECTRA", why=_with("globenc-figures1-A4", "inference=ELECTRA")),
        Entry("Figure A.6", "the same, BERT-large", why=_with("globenc-figures1-A4", "inference=BERT-LARGE")),
    ),
    "Ferrando 2022": (
        Entry("Table 1", "a positive sentence, by several methods", "alti-tables1-9"),
        Entry("Figure 1", "a Transformer layer", why=_DRAWING),
        Entry("Figure 2", "an attention graph", why=_DRAWING),
        Entry("Figure 3", "anisotropy", "alti-figure3"),
        Entry("Figure 4", "sums of vectors", why=_DRAWING),
        Entry("Figure 5", "a sentence's map and [CLS] row", "alti-figure5"),
        Entry("Table 2", "rollouts against grad_l2 and blank-out", "alti-table2"),
        Entry("Figure 6", "ranks of special tokens", "alti-figure6"),
        Entry("Table 3", "an SVA sentence, by several methods", "alti-tables1-9"),
        Entry("Figure 7", "consistency of two models", "alti-figure7"),
        Entry("Tables 4 to 7", "SST-2 sentences, by several methods (one model here, of the three)", "alti-tables1-9"),
        Entry("Tables 8 and 9", "SVA sentences, by several methods (one model here, of the three)", "alti-tables1-9"),
        Entry("Figures 8 to 10", "three methods' maps", "alti-figures8-10"),
    ),
    "Mohebbi 2023": (
        Entry("Table 1", "examples of the five tasks", why="examples of the data: nothing is measured"),
        Entry("Figure 1", "cue alignment by layer, pre-trained", why=_HEAD),
        Entry("Figure 2", "cue alignment by layer, tuned", "vz-figure2"),
        Entry("Figure 3", "probing by layer", "vz-figure3"),
        Entry("Table 2", "cue alignment and probing (tuned column)", "vz-table2"),
        Entry("Table 3", "scores against blank-out (tuned column)", "vz-table3"),
        Entry("Figure 4", "a sentence's scores, by several methods", "vz-figure4"),
        Entry("Figure A.1", "distance functions", "vz-figureA1"),
        Entry("Figure A.2", "probes needed by layer", "vz-figureA2"),
        Entry("Figure A.3", "cue alignment, RoBERTa", why=_with("vz-figure2", "agreement=ROBERTA")),
        Entry("Figure A.4", "cue alignment, ELECTRA", why=_with("vz-figure2", "agreement=ELECTRA")),
        Entry("Figures A.5 to A.18", "a sentence's maps, by several methods", "vz-figuresA5-A18"),
    ),
    "Qiang 2022": (
        Entry("Figure 1", "a Transformer and its class activation", why=_DRAWING),
        Entry("Figure 2", "the methods' formulas", why="formulas: each has its card in docs/methods"),
        Entry("Table 1", "AOPC and log-odds", "attcat-table1"),
        Entry("Table 2", "Kendall confidence", "attcat-table2"),
        Entry("Figure 3", "Precision@20 (XQuAD here, one small model)", "attcat-figure3"),
        Entry("Figure 4", "AttCAT layer by layer", "attcat-figure4"),
        Entry("Figure 5", "a question and a review, by several methods", "attcat-figure5"),
        Entry("Appendix", "other K, more examples", why="the text that was read has no appendix"),
    ),
}
