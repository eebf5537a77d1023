"""`reproduce` as a user runs it, stopped and taken up again, and its page in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_command_line import run as run_command
from tests.commands import run_here
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.runs.result import read_result
from tff_esn.tables import number_text

SWEEP = """
kind = "federated"
title = "Small"
seeds = 2
[settings]
rounds = 3
"esn.units" = 10
"esn.recurrent_connectivity" = 1.0
"data.features.name" = "corrected"
[grid]
preset = ["thesis", "corrected"]
algorithm = ["fedavg", "fedcurv"]
reservoirs = ["same"]
[[tables]]
name = "t"
title = "Mine"
rows = ["algorithm"]
[[figures]]
name = "f"
title = "F"
columns = "reservoirs"
lines = ["algorithm"]
[quick]
settings = { rounds = 1 }
[about]
claimed = "Nothing <b>much</b>."
errata = ["log-softmax", "majority-class"]
"""
CLOSED = """
kind = "closed-form"
title = "Solved"
printed = "pfedrr.table_1"
repetitions = 2
percent = [25, 100]
[data]
split = "wesad-9-3-3"
features = { name = "channels", device = "wrist", rate = 8.0, steps = 40 }
[[methods]]
name = "FedRR"
esn = { units = 20 }
[[methods]]
name = "I-pFedRR"
algorithm = "pfedrr"
candidates = { tau = [0.3, 0.8] }
esn = { units = 20 }
"""
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    write_wesad(folder / "study", minutes=5.0)
    (folder / "small.toml").write_text(SWEEP)
    (folder / "solved.toml").write_text(CLOSED)
    return folder


def run(work: Path, *arguments: object, cache: str = "cache") -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, "--jobs", 1, folder=work, TFF_ESN_CACHE=str(work / cache))


@pytest.fixture(scope="module")
def report(work: Path) -> Path:
    arguments = ("small.toml", "solved.toml", "--data", "study", "--jobs", 2, "--out", "out")
    result = run_command("reproduce", *arguments, cache=work / "cache", folder=work)
    assert result.returncode == 0, result.stderr
    assert "small: 9 of 9 parts to run, about" in result.stderr
    assert "not the study's numbers" in result.stdout
    assert "=: as printed. ≈: within 2 standard deviations. ▲, ▼: above or below them.\n" in result.stdout
    return work / "out"


def test_everything_lies_beside_the_page(report: Path) -> None:
    for name in ("report.html", "results/small.json", "tables/t.csv", "tables/t.md", "tables/t.tex"):
        assert (report / name).stat().st_size > 0, name
    for preset in ("thesis", "corrected"):
        assert (report / f"figures/f-{preset}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (report / f"figures/solved-tau-{preset}.svg").read_text()
    page = (report / "report.html").read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=.https?:", page)
    assert "Nothing &lt;b&gt;much&lt;/b&gt;." in page


def test_the_second_call_does_nothing_and_says_so(work: Path, report: Path) -> None:
    before = (report / "report.html").stat().st_mtime_ns
    again = run(work, "reproduce", "small.toml", "solved.toml", "--data", "study", "--out", "out")
    assert again.returncode == 0 and "nothing was left to do" in again.stderr
    assert "small: complete" in again.stderr
    assert (report / "report.html").stat().st_mtime_ns == before
    more = run(work, "reproduce", "small.toml", "--data", "study", "--out", "more", "--seeds", "3")
    assert "small: 4 of 13 parts to run" in more.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_continued_it_ends_with_the_same_results(work: Path, report: Path, how: signal.Signals) -> None:
    cache = f"cache-{how.name}"
    arguments = ("reproduce", "small.toml", "--data", "study", "--out", how.name)
    process = subprocess.Popen(
        [sys.executable, "-m", "tff_esn", *arguments, "--jobs", "1"],
        env={**os.environ, "TFF_ESN_CACHE": str(work / cache)},
        cwd=work,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while len(list((work / cache / "federated").glob("*.npz"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    assert process.wait(120) != 0
    kept = len(list((work / cache / "federated").glob("*.npz")))
    assert 2 <= kept < 8
    result = run(work, *arguments, cache=cache)
    assert result.returncode == 0, result.stderr
    assert f"small: {9 - kept} of 9 parts" in result.stderr or f"small: {8 - kept} of 9 parts" in result.stderr
    ours, other = (json.loads((folder / "results" / "small.json").read_text()) for folder in (work / how.name, report))
    assert ours["tables"] == other["tables"] and ours["figures"] == other["figures"]


def test_a_quick_look_is_told_as_such_and_listed(work: Path) -> None:
    quick = run(work, "reproduce", "small.toml", "--data", "study", "--quick", "--out", "quick")
    assert quick.returncode == 0, quick.stderr
    result = read_result(work / "quick" / "results" / "small.json")
    assert result.provenance.quick and result.provenance.seeds == 1
    assert any("Quick run" in note for note in result.tables[0].notes)
    listed = run(work, "reproduce", "--list", "--data", "study")
    assert listed.returncode == 0, listed.stderr
    assert "primal-phase" in listed.stdout and "0/" in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing",), "no run 'nothing'; expected"),
        ((), "no run named; expected --all, or some of"),
        (("small.toml", "--data", "/nowhere"), "/nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line(work: Path, arguments: tuple[str, ...], complaint: str) -> None:
    refused = run(work, "reproduce", *arguments)
    assert refused.returncode == 2
    assert complaint in refused.stderr and len(refused.stderr.strip().splitlines()) == 1


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium with its chromedriver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(report: Path, browser: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((report / "report.html").as_uri())
    drawn = "return document.documentElement.dataset.drawn"
    WebDriverWait(browser, 120).until(lambda found: found.execute_script(drawn) is not None)
    yield browser
    assert browser.get_log("browser") == []


def test_the_page_has_the_numbers_and_its_curves_are_toggled_by_the_keyboard(report: Path, page: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    table = read_result(report / "results" / "small.json").tables[0]
    text = page.execute_script("return document.getElementById('table-t').textContent")
    for row in table.rows:
        for line in row.lines.values():
            for cell, column in zip(line, table.columns):
                if cell is not None and cell.mean is not None:
                    assert number_text(cell, column).split(" ")[0] in text
    marks = "return document.querySelectorAll('#figure-f .mark-line.role-mark path').length"
    shown = page.execute_script(marks)
    curves = page.find_elements("css selector", "#figure-f .curves input")
    for curve in curves:
        curve.send_keys(Keys.SPACE)
    WebDriverWait(page, 30).until(lambda found: found.execute_script(marks) == 0)
    for curve in curves:
        curve.send_keys(Keys.SPACE)
    WebDriverWait(page, 30).until(lambda found: found.execute_script(marks) == shown)


def test_errata_are_linked_from_where_they_matter_and_back(page: Any) -> None:
    for name in ("log-softmax", "majority-class"):
        link = page.find_element("css selector", f"#small .errata a[href='#erratum-{name}']")
        assert link.text == name
        entry = page.find_element("id", f"erratum-{name}")
        assert f"tff-esn errata {name}" in entry.text
        assert entry.find_elements("css selector", "a[href='#small']")
    nowhere = """return [...document.querySelectorAll("a[href^='#']")].map((one) => one.getAttribute("href").slice(1))
        .filter((name) => !document.getElementById(name))"""
    assert page.execute_script(nowhere) == []


def test_the_page_on_a_phone_on_paper_and_read_aloud(page: Any) -> None:
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert page.execute_script(wide) <= 0
    # A4 without its margins.
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**metrics, "width": 718, "mobile": False})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.execute_script(wide) <= 0
    widgets = "return [...document.querySelectorAll('nav, button, input')].filter((one) => one.offsetParent)"
    assert page.execute_script(widgets) == []
    unnamed = """return [...document.querySelectorAll("table")].filter((one) => !one.caption
        || [...one.querySelectorAll("th")].some((cell) => !cell.scope))"""
    assert page.execute_script(unnamed) == []
    assert page.execute_script("return document.documentElement.lang") == "en"
    silent = "return [...document.querySelectorAll('.chart')].filter((one) => !one.getAttribute('aria-label'))"
    assert page.execute_script(silent) == []
    headings = "return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))"
    levels = page.execute_script(headings)
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:]))
