"""The errata as a page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tff_esn.runs.errata.catalogue import DOCUMENTS, Erratum

_HEAD = """# Errata of the documents

Written by `tff-esn errata --page docs/errata.md --data path/to/WESAD`; the text is that of `runs/errata/`.

`tff-esn errata` lists these errata, `tff-esn errata NAME` prints one with its evidence, computed there and then
(`-q` the evidence alone).
Evidence marked ◆ has numbers of the study's own recordings: add `--data path/to/WESAD` to get them, or see the same
point on generated subjects. Where the printed behaviour is one value of a switch, the feature recipe and the preset
`thesis` have it as printed and `corrected` as meant (`tff_esn/features/`, `runs/presets.py`).
"""
#: Misprints that a reader mends without noticing: place, printed, meant.
_SMALL = (
    ("thesis, equation 2.12", "Σ_{i=1}^{K} (n_k / n) F_k(w)", "the sum is over k"),
    ("thesis, section 2.2.1", "w^k ← w^k − η F_k(w^k)", "η ∇F_k(w^k)"),
    ("thesis, chapter 3", "v_server, “the importance of the same parameters at time t − 1”", "Σ D w, as in eq. 2.18"),
    ("thesis, chapter 3", "λ for the penalty, u_local and u_client for one thing", "λ is its factor in eq. 2.16"),
    ("thesis, equation B.7", "the middle part without 1 / σ²", "all terms over σ²"),
    ("thesis, Tables 6.4 and 6.5", "“SOTA (multi-label class.)”", "multi-class: one of four labels"),
    ("IncFed paper, section IV-C", "accuracies “from Table I and Table II”", "Tables V and VI"),
    ("FedIP paper, Algorithm 1, line 3", "“Send R, η, T”", "E, which line 7 uses; T is not defined"),
    ("pFedRR paper, after equation 2", "B = Σ B_c", "the sum of what was sent, Σ Ḃ_c"),
)
_OUTPUT = re.compile(r"^### `(?P<name>[^`]+)`.*?^```console\n\$ [^\n]*\n(?P<lines>.*?)\n```$", re.MULTILINE | re.DOTALL)


def errata_page(errata: Sequence[Erratum], outputs: Mapping[str, Sequence[str]]) -> str:
    """All errata, by document.

    Args:
        errata: In the order of the page.
        outputs: The evidence of each, line by line.
    """
    parts = [_HEAD]
    for document, title in DOCUMENTS.items():
        own = [one for one in errata if one.document == document]
        if own:
            parts.append(f"## {document[0].upper()}{document[1:]}\n\n{title}.\n")
            parts.append(_contents(own))
            parts += [_section(one, outputs[one.name]) for one in own]
    rows = [f"| {place} | {printed} | {meant} |" for place, printed, meant in _SMALL]
    parts.append(
        "\n".join(["## Without consequence\n", "| where | printed | meant |", "| --- | --- | --- |", *rows, ""])
    )
    return "\n".join(parts)


def recorded_outputs(page: str) -> dict[str, tuple[str, ...]]:
    """The evidence that a page holds."""
    return {match["name"]: tuple(match["lines"].split("\n")) for match in _OUTPUT.finditer(page)}


def _contents(errata: Sequence[Erratum]) -> str:
    rows = [f"| [`{one.name}`](#{one.name}) | {one.where} | {one.finding} |" for one in errata]
    return "\n".join(["| erratum | where | what |", "| --- | --- | --- |", *rows, ""])


def _section(one: Erratum, lines: Sequence[str]) -> str:
    data = " --data path/to/WESAD" if one.recordings else ""
    console = "\n".join(("```console", f"$ tff-esn errata -q {one.name}{data}", *lines, "```"))
    return f"""### `{one.name}`

**{one.finding}**{" ◆" if one.recordings else ""}

- Where: {one.document}, {one.where}.
- Printed: {one.says}
- Correction: {one.correction}
- Changes: {one.changes}

{console}
"""
