"""Documents point at what is there, and say of the project what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli
import yaml

import tff_esn

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
                for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}  # fmt: skip
    headings |= set(re.findall(r'<a id="([^"]+)">', text))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith(("http://", "https://")):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_the_citation_agrees() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == tff_esn.__version__
    assert citation["license"] == project["license"]
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")[:200]


def test_the_changelog_knows_the_version() -> None:
    assert tff_esn.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
