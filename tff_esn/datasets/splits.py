"""Train/validation/test splits by subject, and those of the documents by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from tff_esn.errors import ConfigError
from tff_esn.registry import expected


def _wesad(*numbers: int) -> tuple[str, ...]:
    return tuple(f"S{number}" for number in numbers)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ClientSplit:
    """Lists of subjects; each subject is a client.

    Attributes:
        discriminator: Subjects that train the discriminator of anomalous clients.
    """

    train: tuple[str, ...]
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    discriminator: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks that no subject has two roles."""
        everyone = self.subjects
        repeated = sorted({subject for subject in everyone if everyone.count(subject) > 1})
        if repeated:
            raise ConfigError(f"subjects {', '.join(repeated)} are in two parts of a split; expected one each")

    @property
    def design(self) -> tuple[str, ...]:
        """The design set: the subjects for model selection and training, in order."""
        return self.train + self.validation + self.discriminator

    @property
    def subjects(self) -> tuple[str, ...]:
        """All subjects, in the order in which the thesis concatenates them."""
        return self.design + self.test

    def without(self, subjects: Sequence[str]) -> ClientSplit:
        """A copy with some subjects left out."""
        parts = (self.train, self.validation, self.test, self.discriminator)
        return ClientSplit(*(tuple(subject for subject in part if subject not in subjects) for part in parts))


_THESIS_TRAIN = _wesad(4, 13, 7, 16, 11, 3, 2, 17, 14, 8)
# Training subjects that join at 25, 50, 75 and 100 %.
_WESAD_JOINS = {25: _wesad(2, 5, 7), 50: _wesad(8, 11), 75: _wesad(13, 15), 100: _wesad(16, 17)}
_HHAR_JOINS = {25: ("a", "b"), 50: ("c",), 75: ("e",), 100: ("h",)}


def _growing(
    name: str, joins: Mapping[int, tuple[str, ...]], validation: tuple[str, ...], test: tuple[str, ...]
) -> dict[str, ClientSplit]:
    splits: dict[str, ClientSplit] = {}
    train: tuple[str, ...] = ()
    for percent, joining in joins.items():
        train += joining
        splits[f"{name}/{percent}"] = ClientSplit(train, validation, test)
    splits[name] = splits[f"{name}/100"]
    return splits


SPLITS: dict[str, ClientSplit] = {
    "thesis": ClientSplit(_THESIS_TRAIN, _wesad(5, 10, 6, 9), _wesad(15)),
    "thesis-discriminative": ClientSplit(_THESIS_TRAIN, _wesad(5, 10), _wesad(15), _wesad(6, 9)),
    **_growing("wesad-9-3-3", _WESAD_JOINS, _wesad(3, 9, 14), _wesad(4, 6, 10)),
    **_growing("hhar-5-2-2", _HHAR_JOINS, ("f", "i"), ("d", "g")),
}
LEAVE_OUT = "leave-out-"
#: All but the last subject train.
LEAVE_OUT_LAST = "leave-out-last"


def resolve_split(split: str | ClientSplit, subjects: Sequence[str]) -> ClientSplit:
    """A split by its name or by its lists, checked against the subjects there are."""
    return checked(split, subjects, "the split") if isinstance(split, ClientSplit) else named_split(split, subjects)


def named_split(name: str, subjects: Sequence[str]) -> ClientSplit:
    """A split by name, checked against the subjects there are.

    `leave-out-S15` tests on S15 and trains on all others, `leave-out-last` tests on the last subject; `all` trains on
    everyone.
    """
    if name == "all":
        return ClientSplit(tuple(subjects))
    if name.startswith(LEAVE_OUT):
        test = subjects[-1] if name == LEAVE_OUT_LAST and "last" not in subjects else name[len(LEAVE_OUT) :]
        split = ClientSplit(tuple(subject for subject in subjects if subject != test), (), (test,))
    elif name in SPLITS:
        split = SPLITS[name]
    else:
        raise ConfigError(f"no split {name!r}; {expected(name, SPLITS)}, {LEAVE_OUT}SUBJECT or all")
    return checked(split, subjects, f"split {name!r}")


def checked(split: ClientSplit, subjects: Sequence[str], what: str) -> ClientSplit:
    """The split, if the study has all its subjects."""
    missing = [subject for subject in split.subjects if subject not in subjects]
    if missing:
        raise ConfigError(f"{what} needs {', '.join(missing)}; the study has {', '.join(subjects)}")
    return split


def growing_split(split: str | ClientSplit, subjects: Sequence[str], percent: int) -> ClientSplit:
    """A split with a share of its training subjects: the documents' own subsets, or else the first of them.

    >>> growing_split(ClientSplit(("a", "b", "c"), (), ("d",)), "abcd", 50).train
    ('a', 'b')
    """
    if isinstance(split, str) and f"{split}/{percent}" in SPLITS:
        return named_split(f"{split}/{percent}", subjects)
    whole = resolve_split(split, subjects)
    return replace(whole, train=whole.train[: math.ceil(len(whole.train) * percent / 100)])


def leave_one_subject_out(subjects: Sequence[str]) -> dict[str, ClientSplit]:
    """One split per subject, with that subject as the test set."""
    return {f"{LEAVE_OUT}{subject}": named_split(f"{LEAVE_OUT}{subject}", subjects) for subject in subjects}
