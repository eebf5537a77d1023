from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tff_esn.datasets.splits import SPLITS, ClientSplit, growing_split, leave_one_subject_out, named_split
from tff_esn.datasets.synthetic.physiology import SUBJECTS
from tff_esn.errors import ConfigError


def test_the_documents_splits() -> None:
    thesis = SPLITS["thesis"]
    assert (len(thesis.train), len(thesis.validation), thesis.test) == (10, 4, ("S15",))
    assert thesis.subjects[:3] == ("S4", "S13", "S7")
    assert set(thesis.subjects) == set(SUBJECTS)
    discriminative = SPLITS["thesis-discriminative"]
    assert discriminative.train == thesis.train
    assert discriminative.validation + discriminative.discriminator == thesis.validation
    for name, sizes in {"wesad-9-3-3": (3, 5, 7, 9), "hhar-5-2-2": (2, 3, 4, 5)}.items():
        growing = [SPLITS[f"{name}/{percent}"] for percent in (25, 50, 75, 100)]
        assert tuple(len(split.train) for split in growing) == sizes
        for smaller, larger in zip(growing, growing[1:]):
            assert larger.train[: len(smaller.train)] == smaller.train
            assert (larger.validation, larger.test) == (smaller.validation, smaller.test)
        assert SPLITS[name] == growing[-1]
    assert set(SPLITS["wesad-9-3-3"].subjects) == set(SUBJECTS)
    assert set(SPLITS["hhar-5-2-2"].subjects) == set("abcdefghi")


def test_leave_one_subject_out() -> None:
    splits = leave_one_subject_out(["S2", "S3", "S4"])
    assert splits["leave-out-S3"] == ClientSplit(("S2", "S4"), (), ("S3",))
    assert len(splits) == 3


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("thesys", r"no split 'thesys'; did you mean 'thesis'\? Expected one of .*, leave-out-SUBJECT or all"),
        ("thesis", "split 'thesis' needs S4, "),
        ("leave-out-S9", "split 'leave-out-S9' needs S9; the study has S2, S3"),
    ],
)
def test_an_impossible_split_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        named_split(name, ["S2", "S3"])


def test_a_share_of_the_training_subjects_is_the_documents_or_the_first_ones() -> None:
    assert growing_split("wesad-9-3-3", SUBJECTS, 25) == SPLITS["wesad-9-3-3/25"]
    own = ClientSplit(("S2", "S3", "S4"), ("S5",), ("S6",))
    assert growing_split(own, SUBJECTS, 34) == ClientSplit(("S2", "S3"), ("S5",), ("S6",))
    assert growing_split(own, SUBJECTS, 100) == own


def test_nobody_has_two_roles() -> None:
    with pytest.raises(ConfigError, match="subjects S3 are in two parts"):
        ClientSplit(("S2", "S3"), ("S3",))


def test_subjects_can_be_left_out() -> None:
    assert SPLITS["thesis"].without(["S15", "S4"]).train == SPLITS["thesis"].train[1:]
    assert SPLITS["thesis"].without(["S15"]).test == ()


def test_the_documents_shares_are_their_own_subsets() -> None:
    for percent in (25, 50, 75, 100):
        assert growing_split("wesad-9-3-3", SUBJECTS, percent) == SPLITS[f"wesad-9-3-3/{percent}"]
    # No subsets of this one are printed.
    assert growing_split("thesis", SUBJECTS, 50).train == SPLITS["thesis"].train[:5]
    with pytest.raises(ConfigError, match="split 'wesad-9-3-3/25' needs S7"):
        growing_split("wesad-9-3-3", ["S2", "S5"], 25)


@given(st.integers(1, 30), st.integers(0, 3), st.integers(0, 3))
def test_shares_of_any_study_grow_to_the_whole(train: int, validation: int, test: int) -> None:
    names = [f"client {number}" for number in range(train + validation + test)]
    split = ClientSplit(
        tuple(names[:train]), tuple(names[train : train + validation]), tuple(names[train + validation :])
    )
    shares = [growing_split(split, names, percent) for percent in (25, 50, 75, 100)]
    assert shares[-1] == split
    assert len(shares[0].train) == -(-train // 4)
    for smaller, larger in zip(shares, shares[1:]):
        assert larger.train[: len(smaller.train)] == smaller.train
        assert (larger.validation, larger.test) == (smaller.validation, smaller.test)
