"""Accuracy of single clients on pages: how it is distributed, and who gains and who loses against training alone."""

import statistics
from collections.abc import Mapping, Sequence

from coterie.report.pages.curves import switch
from coterie.report.shown_clients import drawn_of, shown, spread_table
from coterie.results.charts import Bars, Block, Chart, Distribution, Sample, Section, Series, Table, Values, worst_of
from coterie.results.client_columns import FEW
from coterie.results.comparisons import StoredComparison
from coterie.results.metrics import MetricScale, capital, common_title, scale
from coterie.results.protocols import CURVES, EACH_CLIENT, WORST
from coterie.results.runs import StoredRun
from coterie.results.statistics import Spread, spread

UNKNOWN = "What single clients have is known when a run is finished."


def worst_tenth(run: StoredRun) -> tuple[int, float | None]:
    """Return how many clients have the worst L, and their mean, as it is shown."""
    worst, mean = worst_of(run.per_client("L"), WORST, run.scale.sign)
    return len(worst), mean


def worst_over_seeds(runs: Sequence[StoredRun]) -> Spread | None:
    """Return the mean L of the worst tenth of the clients, as it is shown, over seeds."""
    return spread([mean for run in runs if (mean := worst_tenth(run)[1]) is not None])


def gain(run: StoredRun, solo: StoredRun, protocol: str) -> Values:
    """Return what each client gains against SOLO: percentage points, or what an error is smaller by."""
    sign = run.scale.sign
    pairs = zip(run.per_client(protocol), solo.per_client("L"), strict=False)
    return tuple(None if a is None or b is None else sign * (a - b) for a, b in pairs)


def _client_charts(
    metric: str, rows: Mapping[str, Sequence[tuple[StoredRun, str]]], remark: str
) -> list[tuple[str, Chart]]:
    """Draw all clients of a protocol; a row pools those of its runs, which a suffix tells apart."""
    variants: list[tuple[str, Chart]] = []
    for protocol in EACH_CLIENT:
        samples = [
            _pooled(name, [(run, end, run.per_client(protocol)) for run, end in pool]) for name, pool in rows.items()
        ]
        measured = tuple(sample for sample in samples if any(number is not None for number in sample.values))
        if measured:
            sentence = CURVES[protocol].sentence.removesuffix("; mean over clients")
            many = max(sum(_count(run, protocol) for run, _ in pool) for pool in rows.values())
            chart = Distribution(
                title=f"{capital(metric)} {protocol} of each client",
                x_label=f"{metric} {protocol}{scale(metric).unit}",
                samples=measured,
                worst=0 if scale(metric).is_error else WORST,
                note=f"{protocol}: {sentence}. {remark} {drawn_of(many)}".strip(),
            )
            variants.append((protocol, chart))
    return variants


def _count(run: StoredRun, protocol: str) -> int:
    """Count the clients that were evaluated."""
    return sum(number is not None for number in run.per_client(protocol))


def _pooled(name: str, parts: Sequence[tuple[StoredRun, str, Values]]) -> Sample:
    points = [
        (number, f"client {run.label(client)}{suffix}")
        for run, suffix, numbers in parts
        for client, number in enumerate(numbers)
        if number is not None or len(numbers) <= FEW
    ]
    drawn = shown(points)
    return Sample(name=name, values=tuple(n for n, _ in drawn), names=tuple(label for _, label in drawn))


# --------------------------------------------------------------------------------------------------------------- runs


def measured_by(runs: Sequence[StoredRun]) -> str:
    """Return what all these runs are measured by, as people write it."""
    return common_title(run.metric for run in runs)


def differences(runs: Sequence[StoredRun]) -> list[str]:
    """Return in what the federations of runs differ: data, division, newcomers, metric, sites, seed."""
    differing = [
        name
        for name, section in (("data", "data"), ("division", "partition"), ("newcomers", "newcomers"))
        if any(run.config.get(section) != runs[0].config.get(section) for run in runs)
    ]
    differing += ["metric"] if len({run.metric for run in runs}) > 1 else []
    differing += ["sites"] if any(run.sites != runs[0].sites for run in runs) else []
    return differing + (["seed"] if len({run.setting("run", "seed") for run in runs}) > 1 else [])


def clients_of_runs(runs: Sequence[StoredRun]) -> Section:
    """Show each client of some runs, and beside a run of SOLO who gains and who loses."""
    metric = measured_by(runs)
    variants = _client_charts(metric, {run.name: [(run, "")] for run in runs}, "A point is a client.")
    blocks: list[Block] = [*switch("Protocol", variants), *spread_table(runs)]
    texts = [] if variants else [UNKNOWN]
    others = [run for run in runs if run.algorithm != "solo" and run.result]
    solos = [run for run in runs if run.algorithm == "solo" and run.result]
    alike = [(run, [solo for solo in solos if not differences([run, solo])]) for run in others]
    twins = [(run, matching[0]) for run, matching in alike if matching]
    for run, solo in twins:
        gains = [(p, *_gain(run, solo, p)) for p in EACH_CLIENT if any(n is not None for n in run.per_client(p))]
        texts += [text for _, text, _ in gains]
        blocks += switch("Protocol", [(p, chart) for p, _, chart in gains])
    if others and not twins:
        texts.append(
            "Who gains and who loses against training alone is shown if a run of `solo` with the same data, division, "
            "newcomers and seed is given beside this one: `coterie report RUN SOLO-RUN`."
        )
    blocks += [_sites(run, len(runs) == 1) for run in runs if run.sites]
    return Section(heading=f"{capital(metric)} per client", text=tuple(texts), blocks=tuple(blocks))


def _sites(run: StoredRun, alone: bool) -> Table:
    """Show the clients that are real machines, by name."""
    measured = {protocol: run.per_client(protocol) for protocol in EACH_CLIENT}
    groups = run.groups or []

    def value_at(values: Sequence[float | None], client: int) -> float | None:
        return values[client] if client < len(values) else None

    return Table(
        title="Sites" if alone else f"Sites ({run.name})",
        columns=(
            "client",
            "site",
            "training samples",
            *(["group"] if groups else []),
            *(f"{p}{run.scale.unit}" for p in measured),
        ),
        rows=tuple(
            (
                *(str(client), site.name, site.samples),
                *(["none" if (group := value_at(groups, client)) is None else str(group)] if groups else []),
                *(value_at(values, client) for values in measured.values()),
            )
            for client, site in sorted(run.sites.items())
        ),
        note="Training samples are as many as the site said it has when it last came.",
    )


def _gain(run: StoredRun, solo: StoredRun, protocol: str) -> tuple[str, Chart]:
    """Say and show who gains and who loses against SOLO, in percentage points."""
    gains = [(g, client) for client, g in enumerate(gain(run, solo, protocol)) if g is not None]
    gains.sort(key=lambda pair: (-pair[0], pair[1]))
    up, down = [g for g, _ in gains if g > 0], [g for g, _ in gains if g < 0]
    mean, scaled = sum(g for g, _ in gains) / len(gains) if gains else 0.0, run.scale
    unit = f"of {scaled.metric} less" if scaled.is_error else scaled.difference
    text = (
        f"{run.name} against {solo.name}: under {protocol} {len(up)} of {len(gains)} clients gain, {len(down)} lose "
        f"and {len(gains) - len(up) - len(down)} stay the same; {scaled.shown(mean, 1, '+')} {unit} on average."
    )
    title = f"{run.name} against {solo.name}, client by client ({protocol})"
    if len(gains) > FEW:
        points = Sample(name=run.name, values=tuple(g for g, _ in shown(gains)))
        note = f"Right of 0: gains. {drawn_of(len(gains))}"
        return text, Distribution(title=title, x_label=scaled.difference, samples=(points,), worst=0, note=note)
    chart = Bars(
        title=title,
        x_label="client",
        y_label=_minus(protocol, scaled) + ("" if scaled.is_error else " (points)"),
        categories=tuple(str(client) for _, client in gains),
        series=(
            Series(name="gains", y=tuple(g if g >= 0 else None for g, _ in gains), slot=0),
            Series(name="loses", y=tuple(g if g < 0 else None for g, _ in gains), slot=1),
        ),
        stacked=True,
        note="In order of the difference. SOLO has protocol L only: each client trains alone.",
    )
    return text, chart


def _minus(protocol: str, shown: MetricScale) -> str:
    """Name what a client gains."""
    return f"L of SOLO minus {protocol}" if shown.is_error else f"{protocol} minus L of SOLO"


# -------------------------------------------------------------------------------------------------------- comparisons


def clients_of_comparison(compared: StoredComparison) -> Section:
    """Show each client of each run, the seeds of a method together."""
    rows = {label: [(run, f", seed {seed}") for seed, run in seeds.items()] for label, seeds in compared.runs.items()}
    metric = compared.table.metric
    variants = _client_charts(metric, rows, "A point is a client in a run; the clients of all seeds are together.")
    text = () if variants else (UNKNOWN,)
    blocks = (*switch("Protocol", variants), *spread_table([run for pool in rows.values() for run, _ in pool]))
    return Section(heading=f"{capital(metric)} per client", text=text, blocks=blocks)


def gains_in_comparison(compared: StoredComparison) -> Section | None:
    """Show who gains and who loses against training alone."""
    heading, shown = "Who gains and who loses against SOLO", compared.table.scale
    if not compared.alone:
        text = "This is shown if `solo` with the same data and parts is among the methods."
        return None if compared.sweep else Section(heading=heading, text=(text,))
    variants: list[tuple[str, Chart]] = []
    rows: list[tuple[str | float, ...]] = []
    for protocol in EACH_CLIENT:
        samples = []
        for label, alone in compared.alone.items():
            twins = [(seed, run, compared.runs[alone].get(seed)) for seed, run in compared.runs[label].items()]
            parts = [(run, f", seed {seed}", gain(run, solo, protocol)) for seed, run, solo in twins if solo]
            gains = [number for *_, numbers in parts for number in numbers if number is not None]
            if gains:
                samples.append(_pooled(label, parts))
                rows.append((label, protocol, *_counted(gains)))
        if samples:
            chart = Distribution(
                title=f"{_minus(protocol, shown)}, client by client",
                x_label=shown.difference,
                samples=tuple(samples),
                worst=0,
                note="A point is a client in a run, compared with the same client of the same seed. Right of 0: gains.",
            )
            variants.append((protocol, chart))
    if not variants:
        return Section(heading=heading, text=("No seed has finished runs of SOLO and of another method.",))
    grid = Table(
        title="Clients that gain and lose",
        columns=(
            *(compared.table.noun, "protocol", "clients", "gain (%)", "lose (%)", "stay the same (%)"),
            *("mean" if shown.is_error else "mean (points)", "least", "most"),
        ),
        rows=tuple(rows),
        digits=1,
        note="Clients of all seeds together; they are not independent draws, so no interval is given.",
    )
    names = list(dict.fromkeys(compared.alone.values()))
    text = f"SOLO is '{', '.join(names)}': each client trains alone, hence L is its only protocol."
    return Section(heading=heading, text=(text,), blocks=(*switch("Protocol", variants), grid))


def _counted(gains: Sequence[float]) -> tuple[float, ...]:
    """Return how many there are, shares that gain, lose and stay, mean, least and most."""
    up, down = sum(number > 0 for number in gains), sum(number < 0 for number in gains)
    shares = [100 * many / len(gains) for many in (up, down, len(gains) - up - down)]
    return (len(gains), *shares, statistics.fmean(gains), min(gains), max(gains))
