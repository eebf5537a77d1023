"""What a study holds: subjects, signals, rates, durations, label shares, and every defect."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tff_esn.datasets.study import Study, find_defects, open_study
from tff_esn.datasets.wesad import CODES
from tff_esn.errors import TffEsnError
from tff_esn.parallel import map_unordered
from tff_esn.tables import Table, text_table

UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Inventory:
    """A table to show and the defects found."""

    table: Table
    defects: tuple[TffEsnError, ...]


@dataclass(frozen=True)
class _SubjectReport:
    signals: str
    seconds: float
    shares: str
    defects: tuple[TffEsnError, ...]


def study_inventory(root: Path, labels: Path | None = None, jobs: int | None = 1) -> Inventory:
    """Reads every subject of a WESAD or E4 study."""
    study = open_study(root, labels)
    reports = dict(map_unordered(partial(_report, study), study.subjects, jobs=jobs, description="Checking"))
    rows: list[list[str]] = []
    defects: list[TffEsnError] = []
    for subject in study.subjects:
        report = reports[subject]
        if isinstance(report, TffEsnError):
            rows.append([subject, UNREADABLE, "", ""])
            defects.append(report)
        else:
            rows.append([subject, report.signals, f"{report.seconds:.0f} s", report.shares])
            defects.extend(report.defects)
    headings = ["Subject", "Signals (Hz)", "Duration", "Labels"]
    table = text_table(f"{study.name} study in {root}", headings, rows, numeric=["Duration"])
    return Inventory(table, tuple(defects))


def _report(study: Study, subject: str) -> _SubjectReport:
    recording = study.read(subject)
    devices: dict[str, list[str]] = {}
    for name, signal in recording.signals.items():
        device, sensor = name.split("/")
        devices.setdefault(device, []).append(f"{sensor} {signal.rate:g}")
    signals = "\n".join(f"{device}: {', '.join(sensors)}" for device, sensors in devices.items())
    names: dict[str, float] = {}
    for code, share in recording.code_shares().items():
        name = CODES.get(code, f"code {code}")
        names[name] = names.get(name, 0.0) + share
    shares = ", ".join(f"{name} {share:.1%}" for name, share in names.items())
    return _SubjectReport(signals, recording.codes.duration, shares, tuple(find_defects(recording)))


def hhar_inventory(root: Path) -> Inventory:
    """Reads the files of those kinds of devices, phones and watches, that are there."""
    from tff_esn.datasets.hhar import MODELS, SENSORS, check_hhar, sensor_file

    kinds = [kind for kind in MODELS if any((root / sensor_file(kind, sensor)).is_file() for sensor in SENSORS)]
    reports = [check_hhar(root, kind) for kind in kinds]
    rows = [
        [
            part.file,
            part.user,
            part.device,
            part.samples,
            f"{part.rate:.0f}",
            f"{part.duration:.0f} s",
            ", ".join(f"{name} {share:.0%}" for name, share in part.shares.items()),
        ]
        for report in reports
        for part in report.parts
    ]
    headings = ["File", "User", "Device", "Samples", "Rate (Hz)", "Duration", "Activities"]
    table = text_table(f"HHAR in {root}", headings, rows, numeric=["Samples", "Rate (Hz)", "Duration"])
    return Inventory(table, tuple(defect for report in reports for defect in report.defects))
