"""Errata of the data's preparation: thesis chapter 5."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tff_esn.datasets.synthetic.physiology import generate_subject
from tff_esn.datasets.tables import AFFECT
from tff_esn.features.extraction import decompose_eda, find_beats, standardize
from tff_esn.features.windows import normalized_windows
from tff_esn.runs.errata.catalogue import AS_PUBLISHED, CORRECTED, Evidence, Source, erratum, evidence
from tff_esn.runs.feature_statistics import stage_statistics
from tff_esn.runs.reported import TABLE_OF_STAGE, reported

_BEATS = 25 * 64


@erratum(
    "chest-or-wrist",
    "thesis, section 5.1",
    says="“we consider the chest device data, and specifically the Electrodermal Activity (EDA), sampled at 4HZ, and "
    "the Blood Volume Pulse (BVP), sampled at 64 Hz”.",
    correction="The wrist's EDA and BVP; `tff_esn/features/extraction.py` reads `wrist/EDA` and `wrist/BVP`.",
    changes="Nothing in the numbers: the wrist's signals reproduce Tables 5.1 to 5.3 (`tff-esn data stats DIR`).",
)
def chest_or_wrist(source: Source) -> Evidence:
    """EDA at 4 Hz and BVP at 64 Hz are the wrist's; the chest's EDA has 700 Hz, and it has no BVP."""
    signals = generate_subject("S2", minutes=10.0, chest=True).signals
    lines = [f"{name:10} {signal.rate:5g} Hz" for name, signal in signals.items() if name.endswith(("EDA", "BVP"))]
    rates = {name: signal.rate for name, signal in signals.items()}
    right = rates["wrist/EDA"] == 4 and rates["wrist/BVP"] == 64 and rates["chest/EDA"] == 700
    return evidence(right and "chest/BVP" not in rates, "signals in WESAD's layout:", *lines)


@erratum(
    "not-stressed",
    "thesis, section 5.1",
    says="Four labels: Baseline, Stress, Amusement, Meditation; those “different from *Stress*, are considered as "
    "‘Not Stressed’”.",
    correction="Label 0 is every other code, transients (0) and 5 to 7 included: that gives the printed 11.47 %.",
    changes="The task's difficulty and its majority class; the task `affect` (codes 1 to 4) is the other reading.",
    recordings=True,
)
def not_stressed(source: Source) -> Evidence:
    """The printed share of label 1 counts the protocol's transients as “not stressed”."""
    codes = np.sum([own.code_counts for own in source.features().values()], axis=0)
    everything = 100 * codes[2] / codes.sum()
    four = 100 * codes[2] / codes[list(AFFECT.class_of_code)].sum()
    printed = reported()["thesis"]["table_5_1"]["label_1_percent"]
    return evidence(
        four > everything and (source.generated or round(everything, 2) == printed),
        f"stress among all codes        {everything:5.2f} %   (printed {printed:.2f} %)",
        f"stress among the four labels  {four:5.2f} %",
    )


@erratum(
    "sampling-rate",
    "thesis, section 5.2 and Table 5.1, row pEDA",
    says="EDA is cleaned with `eda_clean` and split into tonic and phasic parts with `eda_phasic`; no sampling rate "
    "is named.",
    correction='`eda_rate = "true"`: 4 Hz is passed to NeuroKit.',
    changes="“Phasic” EDA, the one feature of the chosen model, is a slow signal as printed; with 4 Hz its variance "
    "falls by orders of magnitude.",
    recordings=True,
)
def sampling_rate(source: Source) -> Evidence:
    """NeuroKit's default of 1000 Hz was left in place at 4 Hz: its high-pass at 0.05 Hz is one at 0.0002 Hz."""
    recording = source.recording()
    eda = recording.signal("wrist/EDA")
    variances = {}
    for recipe in (AS_PUBLISHED, CORRECTED):
        phasic, _ = decompose_eda(eda, recipe.extraction)
        variances[recipe.name] = phasic.values.var()
    return evidence(
        variances["thesis"] > 10 * variances["corrected"],
        f"variance of the phasic EDA of {recording.subject}",
        f"  1000 Hz  {variances['thesis']:.4f}",
        f"  4 Hz     {variances['corrected']:.4f}",
        f"printed, all subjects: {reported()['thesis']['table_5_1']['pEDA']['var']:.4f}",
    )


@erratum(
    "beats-not-seconds",
    "thesis, section 5.2 and Table 6.1, “Window size”",
    says="The windows of 5, 25 and 50 are “multiplied by 64 (the sampling frequency of BVP/PPG) in order to consider "
    "a timing of seconds”, and slide “on the PPG peaks signal”.",
    correction='`hrv_window_unit = "seconds"`.',
    changes="HRV as printed summarises minutes, and a recording with fewer than 1600 beats has none.",
    recordings=True,
)
def beats_not_seconds(source: Source) -> Evidence:
    """A window of 25 x 64 peaks is 1600 heart beats, not 25 seconds."""
    recording = source.recording()
    bvp = recording.signal("wrist/BVP")
    times = find_beats(bvp) / bvp.rate
    seconds = float(np.median(times[_BEATS - 1 :] - times[: len(times) - _BEATS + 1]))
    return evidence(
        seconds > 10 * 25,
        f"{recording.subject}: {len(times)} beats in {recording.codes.duration:.0f} s",
        f"a window of {_BEATS} beats lasts {seconds:.0f} s (median), {seconds / 25:.0f} times 25 s",
    )


@erratum(
    "hrv-unit",
    "thesis, section 5.2 and Table 5.1, row HRV",
    says="HRV is computed with `hrv_time` on peaks of the 64 Hz signal; NeuroKit takes peaks for samples at 1000 Hz, "
    "milliseconds.",
    correction='`hrv_unit = "milliseconds"`.',
    changes="A factor of 15.625 in Table 5.1; none after standardising.",
    recordings=True,
)
def hrv_unit(source: Source) -> Evidence:
    """The HRV of Table 5.1 is in samples of 1/64 s, and reads as milliseconds."""
    rate = source.recording().signal("wrist/BVP").rate
    values = np.concatenate([own.extracted["HRV"] for own in source.features().values()])
    printed = reported()["thesis"]["table_5_1"]["HRV"]["mean"]
    return evidence(
        1000 / rate == 15.625 and (source.generated or round(values.mean(), 4) == printed),
        f"mean SDSD in samples at {rate:g} Hz  {values.mean():8.4f}   (printed {printed:.4f})",
        f"the same in milliseconds       {values.mean() * 1000 / rate:8.2f}",
    )


@erratum(
    "stretched-clock",
    "thesis, section 5.2, third phase",
    says="“resampling the signals with respect to the shortest one for each subject … using the function "
    "`signal_resample`”.",
    correction='`alignment = "clock"`: every feature is read at the same moment, nothing from the future.',
    changes="As printed the features of one step belong to different moments, and HRV sees the future of its label.",
    recordings=True,
)
def stretched_clock(source: Source) -> Evidence:
    """Each feature is stretched to the same length whatever time it covers: the first HRV ends minutes after step 0."""
    recording = source.recording()
    bvp = recording.signal("wrist/BVP")
    end = find_beats(bvp)[_BEATS - 1] / bvp.rate
    return evidence(
        end > 60,
        f"{recording.subject}: step 0 carries the label of second 0,",
        f"and an HRV whose window ends at second {end:.0f}",
    )


@erratum(
    "running-mean",
    "thesis, section 5.2, last phase, and Table 5.3",
    says="“a normalization of the features with an online moving average”; Table 5.3 has a minimum of −20053.9745 and "
    "a variance of 8039.7497.",
    correction='`normalization = "zscore"`: the running mean is subtracted, and a running deviation divides.',
    changes="A few windows at the zero crossing hold values of thousands, of a signal whose deviation is about 10.",
    recordings=True,
)
def running_mean(source: Source) -> Evidence:
    """A window is divided by a running mean that crosses zero: there the values have no bound."""
    extremes = {}
    for recipe in (AS_PUBLISHED, CORRECTED):
        tables = [standardize(source.features(recipe)[name].table) for name in source.split.design]
        windows = normalized_windows(tables, recipe.windows).values()
        extremes[recipe.name] = max(float(np.abs(own.values).max()) for own in windows)
    return evidence(
        extremes["thesis"] > 5 * extremes["corrected"],
        f"largest absolute value, divided by the running mean  {extremes['thesis']:10.1f}",
        f"largest absolute value, running z-score              {extremes['corrected']:10.1f}",
    )


@erratum(
    "normalisation-leaks",
    "thesis, section 5.2, last phase",
    says="The “online moving average” is never said to start anew; Table 5.3 comes out when it runs from subject to "
    "subject.",
    correction='`scope = "subject"`.',
    changes="As printed a client's inputs depend on the recordings of the clients before it: the data do not stay "
    "where they are.",
    recordings=True,
)
def normalisation_leaks(source: Source) -> Evidence:
    """What a subject's model sees depends on the recordings of other subjects."""
    first, second, *_ = source.split.train
    tables = [standardize(source.features()[name].table) for name in (first, second)]
    changed = [replace(tables[0], values=tables[0].values + 1), tables[1]]
    moved = {}
    for recipe in (AS_PUBLISHED, CORRECTED):
        before, after = (normalized_windows(own, recipe.windows)[second].values for own in (tables, changed))
        # A window as printed may begin in the subject before; those of the second half do not.
        half = len(before) // 2
        moved[recipe.windows.scope] = float(np.abs(before[-half:] - after[-half:]).max())
    return evidence(
        moved["study"] > 0 and moved["subject"] == 0,
        f"{first}'s features shifted by 1 move {second}'s inputs, in the second half of its recording, by at most",
        f"  {moved['study']:.4f}  with the mean of the study",
        f"  {moved['subject']:.4f}  with the mean of the subject",
    )


@erratum(
    "table-5-3-rows",
    "thesis, Table 5.3, rows pEDA and tEDA",
    says="pEDA from −2.9826 to 6.8522, tEDA from −20053.9745 to 12748.3417.",
    correction="The rows are exchanged: what stands under pEDA is the tonic signal's.",
    changes="Who reads the table takes the phasic signal, the chosen feature, for well-behaved.",
    recordings=True,
)
def table_5_3_rows(source: Source) -> Evidence:
    """The statistics under pEDA are those of tEDA, and the other way round."""
    tables = reported()["thesis"]
    before, printed = (tables[TABLE_OF_STAGE[stage]] for stage in ("standardized", "normalized"))
    found = stage_statistics("normalized", source.features(), source.split, AS_PUBLISHED).features
    # What Table 5.2 lets expect, were the mean that divides the one it ends with.
    expected = {name: before[name]["var"] / before[name]["mean"] ** 2 for name in ("pEDA", "tEDA")}
    lines = [f"{'':5} {'var of Table 5.2 / mean^2':>26} {'var computed':>13} {'var printed':>12}"]
    # Two digits: the third of the phasic signal's depends on the processor, at a zero crossing of the mean.
    lines += [
        f"{name:5} {value:26.1f} {found[name].var:13.2f} {printed[name]['var']:12.2f}"
        for name, value in expected.items()
    ]
    exchanged = all(
        abs(getattr(found[name], statistic) / value - 1) < 1e-4
        for name, other in (("pEDA", "tEDA"), ("tEDA", "pEDA"))
        for statistic, value in printed[other].items()
    )
    unlikely = expected["pEDA"] > expected["tEDA"] and printed["pEDA"]["var"] < printed["tEDA"]["var"]
    return evidence(unlikely and (source.generated or exchanged), *lines)


@erratum(
    "six-thousand-samples",
    "thesis, section 5.2, last sentence",
    says="“The last dataset contains ~ 6000 samples for each subject”.",
    correction="Beats minus 1600, the length of HRV: 4,945 on average over the 14 subjects of the table.",
    changes="Nothing else: about 6,500 is the number of heart beats.",
    recordings=True,
)
def six_thousand_samples(source: Source) -> Evidence:
    """A subject has as many samples as heart beats minus 1600, on average fewer than 6000."""
    features = source.features()
    samples = np.array([len(features[name].table) for name in source.split.design])
    beats = np.array([len(features[name].extracted["HR"]) for name in source.split.design])
    return evidence(
        bool((beats - samples == _BEATS).all() and samples.mean() < 5500),
        f"samples per subject      mean {samples.mean():.0f}, from {samples.min()} to {samples.max()}",
        f"heart beats per subject  mean {beats.mean():.0f}",
    )
