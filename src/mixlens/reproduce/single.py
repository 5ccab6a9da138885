"""The papers' figures and tables that show single texts: which texts, which methods, which maps."""

from __future__ import annotations

from mixlens.reproduce.findings import Findings, Method
from mixlens.reproduce.study import Study
from mixlens.reproduce.texts import Map, Text, page, shown
from mixlens.target import Target

_ABSOLUTE = {"absolute": True}
_WAY = {"absolute": True, "tolerance": float("inf"), "steps": 50}

# --- Abnar & Zuidema 2020 ---

_VIEWS = {"Raw": ("attention", "each"), "Rollout": ("attention", "rollout"), "Flow": ("attention", "flow")}
_PREFIXES = (
    "the key to the cabinets",
    "the article on nnp large systems",
    "here the nns differ in that the female",
)
abnar_figures1to3 = page(
    *(
        Text(
            "verb_number",
            text,
            scores=(("Rollout", "attention_rollout", {}), ("Flow", "attention_flow", {})),
            maps={f"{label}, [CLS]": Map(*view, row="cls") for label, view in _VIEWS.items()}
            | ({f"{label}, graph": Map(*view, kind="graph") for label, view in _VIEWS.items()} if k == 0 else {}),
        )
        for k, text in enumerate(_PREFIXES)
    ),
    notes=(
        "Figure 1 is the graphs, Figures 2 and 3 the rows of [CLS]. The paper's model was trained from nothing, its "
        "words NNP and NNS stand for rare ones there; ours is the tuned MiniLM.",
    ),
)

# --- Modarressi 2022 ---

_GLOBENC = {"GlobEnc, [CLS]": Map("globenc", row="cls")}
_SENTENCE = "a deep and meaningful film ."
_MAPS = {"W": "attention", "N": "norm", "N_RES": "norm_res", "N_RESLN": "norm_resln", "N_ENC": "globenc"}


def globenc_figures(study: Study) -> Findings:
    """Figures 1 and A.1 to A.4: GlobEnc's [CLS] rows of right and wrong answers and of a pair, and other methods'."""
    wrong: list[str] = []
    for row in study.rows("sst2/dev.jsonl", at_most=300):
        target = study.attribute("sst2", row["text"], "random").target
        assert target is not None
        if target.index != row["label"] and len(wrong) < 2 and len(row["text"].split()) < 20:
            wrong.append(row["text"])
    others = {f"{name}, [CLS] by layer": Map(method, row="cls") for name, method in _MAPS.items()}
    whole = {f"{name}, last layer": Map(method, last=True) for name, method in _MAPS.items()}
    texts = [
        Text("sst2", _SENTENCE, scores=(("GlobEnc", "globenc", {}), ("saliency", "saliency", {})), maps=_GLOBENC),
        *(Text("sst2", text, scores=(("GlobEnc", "globenc", {}),), maps=_GLOBENC) for text in wrong),
        Text("sst2", "a clever blend of fact and fiction .", maps=others | whole),
        Text(
            "inference",
            ("A man plays a guitar .", "A man makes music ."),
            scores=(("GlobEnc", "globenc", {}),),
            maps=_GLOBENC,
        ),
    ]
    notes = (
        f"Text 1 is for Figure 1, texts 2 to {1 + len(wrong)}, which the model gets wrong, for Figure A.1; text "
        f"{2 + len(wrong)} for Figures A.2 and A.3; the last, a pair on the SNLI model, for Figure A.4. The paper's "
        "sentences cannot be read from its pictures, so these are others.",
    )
    return shown(study, texts, notes)


# --- Ferrando 2022 ---

_ROLLOUTS: tuple[Method, ...] = (
    ("Attn Rollout", "attention_rollout", {}),
    ("Norm Rollout", "norm_rollout", {}),
    ("ALTI", "alti", {}),
)
_GRADIENTS: tuple[Method, ...] = (
    ("grad_l2", "grad_l2", {}),
    ("|grad x input|", "grad_x_input", _ABSOLUTE),
    ("|IG|", "integrated_gradients", _WAY),
)
_BLANK: Method = ("blank-out", "blank_out", {"replace": "mask", "absolute": True})
_REVIEWS = (
    "a remarkable 179 - minute meditation on the nature of revolution .",  # Tables 1 and 5
    "an engaging overview of johnson ' s eccentric career .",  # Table 4
    "it turns out to be a cut above the norm , thanks to some clever writing and sprightly acting .",  # Table 6
    "this may be the dumbest , sketchiest movie on record about an aspiring writer ' s coming - of - age .",  # Table 7
)
_VERBS = (  # Tables 3 and 9, and 8
    ("a 1770s map of philadelphia ' s naval defenses [MASK] a fort on the island , but it is unidentified .", "shows"),
    ("certainly the tracks listed on the chart all [MASK] to be very obscure .", "appear"),
)
_FOILS = {"shows": "show", "appear": "appears"}
alti_figure5 = page(
    Text(
        "sst2",
        "a clever blend of fact and fiction .",
        scores=(("ALTI", "alti", {}),),
        maps={"ALTI, last layer": Map("alti", last=True), "ALTI, [CLS] by layer": Map("alti", row="cls")},
    )
)
alti_tables = page(
    *(Text("sst2", text, Target(of="prob"), (*_GRADIENTS, *_ROLLOUTS)) for text in _REVIEWS),
    *(
        Text("masked_verb", text, Target(verb, foil=_FOILS[verb]), (*_GRADIENTS, _BLANK, _ROLLOUTS[-1]))
        for text, verb in _VERBS
    ),
    notes=(
        "Texts 1 to 4 are those of Tables 1 and 5, 4, 6 and 7; texts 5 and 6 those of Tables 3 and 9, and 8. The paper "
        "shows RoBERTa, BERT and DistilBERT; here it is the tuned MiniLM, whose masked model compares the verb with "
        "its other number.",
    ),
)

# --- Mohebbi 2023 ---

_HAT, _WERE = "The pictures of some hat [MASK] scaring Marcus.", Target("were", foil="was")
_MIXED = {
    "Attn": "attention",
    "Attn-norm": "norm",
    "Attn-norm + RES": "norm_res",
    "Attn-norm + RES + LN": "norm_resln",
    "GlobEnc": "globenc",
    "ALTI": "alti",
    "Value Zeroing": "value_zeroing",
}
_GLOBAL: tuple[Method, ...] = (
    ("blank-out", "blank_out", {}),
    *((label, f"{method}+rollout", {}) for label, method in _MIXED.items()),
    ("GradXinput", "grad_x_input", {}),
    ("IG", "integrated_gradients", {"tolerance": float("inf"), "steps": 50}),
    ("DL", "deeplift", {}),
)
vz_figure4 = page(
    Text("agreement", _HAT, _WERE, _GLOBAL),
    notes=("The paper's foil is said to be 'is' in its text; 'was' is the verb's other number.",),
)
vz_maps = page(
    Text(
        "agreement",
        _HAT,
        maps={
            f"{label}, {words}": Map(method, form, normalized=form == "each" and label != "Attn")
            for label, method in _MIXED.items()
            for form, words in (("each", "each layer"), ("rollout", "rolled out"))
        },
    ),
    notes=("Single layers' rows are divided by their sum, as the paper's are; rollouts are of the maps as they are.",),
)

# --- Qiang 2022 ---

_INPUT = {"indexing": "input"}
_QUESTION = (
    "Which NFL team represented the AFC at Super Bowl 50?",
    "Super Bowl 50 was an American football game to determine the champion of the National Football League (NFL) for "
    "the 2015 season. The American Football Conference (AFC) champion Denver Broncos defeated the National Football "
    "Conference (NFC) champion Carolina Panthers 24-10 to earn their third Super Bowl title.",
)
attcat_figure5 = page(
    Text("question", _QUESTION, marked=(("AttCAT", "attcat", _INPUT),)),
    Text(
        "sst2",
        "i really didn ' t like this movie . some of the actors were good , but overall the movie was boring .",
        scores=(
            ("AttCAT", "attcat", _INPUT),
            ("TransAtt", "trans_att", {"zero_cls": True}),
            ("RawAtt", "attention", {"zero_cls": True}),
            ("Rollout", "attention_rollout", {"zero_cls": True}),
        ),
    ),
    notes=("Authors' indexing. The question's paragraph is cut after its second sentence.",),
)
