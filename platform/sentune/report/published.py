"""What the papers report, and with what: figures to stand beside a study's own.

Fractions; the tables are the papers'. Rows of the papers' own methods, and of SimCSE
and SIF as those papers measured them.

Papers: Representing Sentence Interpretations with Overlapping Box Embeddings (GumbelCSE), Sentence
Representations via Gaussian Embedding (GaussCSE), Bridging Continuous and Discrete Spaces
(InterSent), Exploiting Invertible Decoders for Unsupervised Sentence Representation Learning,
Sequential Sentence Embeddings for Semantic Similarity (LAES).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a paper trained, and from what.

    Attributes:
        encoder: as the paper names it.
        corpus: as the paper names it.
        formats: formats in which that corpus is read here.
        rows: examples that the paper counts; None where it gives no number for them.
    """

    encoder: str
    corpus: str
    formats: tuple[str, ...]
    rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of a table.

    Attributes:
        method: name of the method here.
        source: paper and table.
        row: the paper's name for it.
        metric: name of the metric here.
        values: data set -> the paper's value.
        trained: on what.
        where: settings that make a study of this row, setting -> values; empty: any.
    """

    method: str
    source: str
    row: str
    metric: str
    values: Mapping[str, float]
    trained: Trained
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


JUDGED = {
    "SNLI test": ("snli", "test"),
    "MNLI-mismatched": ("multinli", "mismatched"),
    "SICK test": ("sick", "test"),
    "SICK trial": ("sick", "trial"),
    "STS Benchmark dev": ("stsb", "dev"),
    "STS Benchmark test": ("stsb", "test"),
    "STS12": ("sts", "2012"),
    "STS13": ("sts", "2013"),
    "STS14": ("sts", "2014"),
    "STS15": ("sts", "2015"),
    "STS16": ("sts", "2016"),
    "SICK": ("sick", "sick"),
    "ChaosNLI-S": ("chaosnli", "snli"),
    "ChaosNLI-M": ("chaosnli", "mnli"),
    "AmbiEnt": ("ambient", "test"),
    "C-STS dev": ("csts", ""),
    "LC-STS": ("csts", "lc"),
    "DiscoFuse test": ("discofuse", "test"),
    "WikiSplit test": ("wikisplit", "test"),
    "Google compression test": ("compression", "test"),
    "ParaNMT": ("paranmt", ""),
}
"""Data set -> the format that reads it here, and a word of its part that a path has."""

_GUMBEL = "GumbelCSE"
_GAUSS = "GaussCSE"
_INTERSENT = "InterSent"
_INVERTIBLE = "Invertible decoders"
_LAES = "LAES"

# the paper counts its triplets (section 4.1): those that SimCSE's authors prepared
NLI = Trained(
    encoder="bert-base-uncased",
    corpus="SNLI and MultiNLI, 275,601 triplets",
    formats=("snli", "multinli"),
    rows=275_601,
)
OPERATIONS = Trained(
    encoder="roberta-base",
    corpus="DiscoFuse, WikiSplit, Google, Gigaword and ParaNMT",
    formats=("discofuse", "wikisplit", "compression", "gigaword", "paranmt"),
)
BOOKS = Trained(
    encoder="fastText, 300", corpus="BookCorpus, 74 million sentences", formats=("books",)
)
GLOVE_STSB = Trained(encoder="GloVe, 300", corpus="STS Benchmark train", formats=("stsb",))
GLOVE_SICK = Trained(encoder="GloVe, 300", corpus="SICK train", formats=("sick",))

_ENT_CON_REV = {"contradiction_weight": (1.0,), "reverse_weight": (1.0,)}
"""GaussCSE with its three sets, each weighing as in equation 4."""


def _nli(method: str, source: str, row: str, metric: str, *values: float) -> Published:
    sets = ("SNLI test", "MNLI-mismatched", "SICK test")
    judged = dict(zip(sets, values, strict=True))
    return Published(
        method=method, source=source, row=row, metric=metric, values=judged, trained=NLI
    )


def _gauss(row: str, metric: str, source: str, snli: float, sick: float) -> Published:
    return Published(
        method="gauss",
        source=f"{_GAUSS}, {source}",
        row=row,
        metric=metric,
        values={"SNLI test": snli, "SICK test": sick},
        trained=NLI,
        where=_ENT_CON_REV,
    )


def _generation(
    operation: str, judged: str, one: float, two: float, long: float
) -> list[Published]:
    return [
        Published(
            method="intersent",
            source=f"{_INTERSENT}, Table 1",
            row="InterSent",
            metric=f"{operation}/{metric}",
            values={judged: value},
            trained=OPERATIONS,
        )
        for metric, value in (("rouge1", one), ("rouge2", two), ("rougeL", long))
    ]


def _laes(
    row: str, sick: Mapping[str, float], stsb: Mapping[str, float], **where: Any
) -> list[Published]:
    method = "sif" if "variant" in where else "laes"
    return [
        Published(
            method=method,
            source=f"{_LAES}, Table I",
            row=row,
            metric="sts/pearson",
            values=values,
            trained=trained,
            where=where,
        )
        for values, trained in ((sick, GLOVE_SICK), (stsb, GLOVE_STSB))
        if values
    ]


def _invertible(row: str, decoder: str, **pearson: float) -> list[Published]:
    judged = {
        "sts12": "STS12",
        "sts13": "STS13",
        "sts14": "STS14",
        "sts15": "STS15",
        "sts16": "STS16",
        "sick": "SICK",
    }
    return [
        Published(
            method="invertible",
            source=f"{_INVERTIBLE}, Table 3",
            row=row,
            metric="sts/pearson" if task == "sick" else f"{task}/pearson",
            values={judged[task]: value},
            trained=BOOKS,
            where={"decoder": (decoder,)},
        )
        for task, value in pearson.items()
    ]


PUBLISHED: tuple[Published, ...] = (
    _nli(
        "gumbel", f"{_GUMBEL}, Table 2", "GumbelCSE", "direction/accuracy", 0.9810, 0.9241, 0.8967
    ),
    _nli("gumbel", f"{_GUMBEL}, Table 1", "GumbelCSE", "rte/accuracy", 0.8025, 0.7374, 0.8705),
    *(
        Published(
            method="gumbel",
            source=f"{_GUMBEL}, Table 3",
            row="GumbelCSE-int",
            metric=f"ambiguous-rte/f1_{label}",
            values=dict(zip(("ChaosNLI-S", "ChaosNLI-M", "AmbiEnt"), values, strict=True)),
            trained=NLI,
        )
        for label, values in (
            ("entailment", (0.2857, 0.3433, 0.2763)),
            ("non_entailment", (0.7164, 0.5495, 0.6794)),
            ("both", (0.4625, 0.2717, 0.0327)),
        )
    ),
    *(
        Published(
            method="gumbel",
            source=f"{_GUMBEL}, Table 4",
            row=row,
            metric=f"csts/{metric}",
            values={"C-STS dev": csts, "LC-STS": lcsts},
            trained=NLI,
        )
        for row, metric, csts, lcsts in (
            ("GumbelCSE-con", "spearman", 0.0739, 0.1047),
            ("GumbelCSE-con", "pearson", 0.0780, 0.1141),
            ("GumbelCSE-sen", "sen_spearman", 0.0675, 0.1046),
            ("GumbelCSE-sen", "sen_pearson", 0.0713, 0.1141),
        )
    ),
    _nli("gauss", f"{_GUMBEL}, Table 2", "GaussCSE", "direction/accuracy", 0.9738, 0.9192, 0.8622),
    _gauss("ent+con+rev", "direction/by_similarity", "Table 2", 0.9709, 0.6922),
    _gauss("ent+con+rev", "direction/by_extent", "Table 2", 0.9721, 0.7013),
    _gauss("ent+con+rev", "rte/accuracy", "Table 1", 0.7751, 0.8437),
    _gauss("ent+con+rev", "rte/auc", "Table 1", 0.6933, 0.7892),
    _nli("simcse", f"{_GUMBEL}, Table 1", "SimCSE", "rte/accuracy", 0.7496, 0.7818, 0.8611),
    Published(
        method="simcse",
        source=f"{_GAUSS}, Table 1",
        row="Sup-SimCSE",
        metric="rte/auc",
        values={"SNLI test": 0.6676, "SICK test": 0.8141},
        trained=NLI,
    ),
    *_generation("fusion", "DiscoFuse test", 0.887, 0.719, 0.822),
    *_generation("difference", "WikiSplit test", 0.730, 0.484, 0.643),
    *_generation("compression", "Google compression test", 0.696, 0.509, 0.663),
    *_generation("reconstruction", "ParaNMT", 0.480, 0.247, 0.438),
    Published(
        method="intersent",
        source=f"{_INTERSENT}, Table 2",
        row="InterSent",
        metric="sts/spearman",
        values={"STS Benchmark test": 0.8060},
        trained=OPERATIONS,
    ),
    *_invertible(
        "linear, B",
        "linear",
        sts12=0.615,
        sts13=0.613,
        sts14=0.716,
        sts15=0.761,
        sts16=0.748,
        sick=0.761,
    ),
    *_invertible(
        "bijective, B",
        "coupling",
        sts12=0.608,
        sts13=0.607,
        sts14=0.721,
        sts15=0.766,
        sts16=0.758,
        sick=0.742,
    ),
    *_laes(
        "LAES-HID",
        {"SICK trial": 0.367, "SICK test": 0.406},
        {"STS Benchmark dev": 0.405, "STS Benchmark test": 0.350},
        form=("hid",),
    ),
    *_laes(
        "LAES-RECO",
        {"SICK trial": 0.705, "SICK test": 0.719},
        {"STS Benchmark dev": 0.715, "STS Benchmark test": 0.632},
        form=("reco",),
    ),
    *_laes(
        "LAES-RES",
        {"SICK trial": 0.713, "SICK test": 0.725},
        {"STS Benchmark dev": 0.802, "STS Benchmark test": 0.718},
        form=("res",),
    ),
    *_laes(
        "LAES-BRES",
        {"SICK trial": 0.716, "SICK test": 0.729},
        {"STS Benchmark dev": 0.814, "STS Benchmark test": 0.723},
        form=("bres-sum", "bres-cat"),
    ),
    *_laes(
        "SIF",
        {"SICK test": 0.722},
        {"STS Benchmark dev": 0.801, "STS Benchmark test": 0.720},
        variant=("sif",),
    ),
    *_laes("uSIF", {}, {"STS Benchmark test": 0.715}, variant=("usif",)),
)

TABLE_3: Mapping[tuple[int, float], float] = {
    (16, 1e-5): 0.6439, (16, 3e-5): 0.6602, (16, 5e-5): 0.6700,
    (32, 1e-5): 0.6321, (32, 3e-5): 0.6523, (32, 5e-5): 0.6597,
    (64, 1e-5): 0.6079, (64, 3e-5): 0.6413, (64, 5e-5): 0.6527,
    (128, 1e-5): 0.5993, (128, 3e-5): 0.6272, (128, 5e-5): 0.6360,
    (256, 1e-5): 0.5886, (256, 3e-5): 0.6150, (256, 5e-5): 0.6252,
}  # fmt: skip
"""GaussCSE's Table 3: batch size, learning rate -> area for NLI on SNLI dev."""
