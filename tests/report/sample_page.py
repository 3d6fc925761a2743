"""A page with one chart of every kind and names that try to break out, for the tests of pages."""

import math

import numpy as np

from coterie.results.charts import (
    Bars,
    Code,
    Distribution,
    Fact,
    HeatMap,
    Lines,
    Mark,
    Page,
    Point,
    Sample,
    Scatter,
    Section,
    Series,
    Switch,
    Table,
    classical_mds,
    tree_of,
    values,
)

EVIL = "</script><script>document.title='broken out'</script>"
"""A name that must stay a name."""


def sample_page(clients: int = 24) -> Page:
    """Return it."""
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import pdist, squareform

    rng = np.random.default_rng(0)
    where = rng.normal(size=(clients, 3)) * 0.3 + np.repeat(np.eye(3) * 3, clients // 3, axis=0)
    proximity = squareform(pdist(where))
    tree = linkage(squareform(proximity), "average")
    labels = [int(group) - 1 for group in fcluster(tree, 2, "distance")]
    names = [f"client {i}" for i in range(clients)]
    rounds = values(range(0, 41, 2))
    curves = {
        protocol: Lines(
            title=f"Accuracy {protocol} over rounds",
            note=f"Mean over clients under protocol {protocol}; bands: seeds.",
            x_label="round",
            y_label=f"accuracy {protocol} (%)",
            series=tuple(
                Series(
                    name=name,
                    x=rounds,
                    y=tuple(None if 8 < i < 12 and k == 1 else v for i, v in enumerate(y)),
                    low=values(v - 3 for v in y),
                    high=values(v + 3 for v in y),
                )
                for k, name in enumerate(["pacfl", EVIL, "fedavg"])
                for y in [tuple(90 - 8 * k - 60 * math.exp(-r / (8 + k)) for r in range(0, 41, 2))]
            ),
            marks=(Mark(at=20, text="newcomers"), Mark(at=80, text="target", axis="y")),
        )
        for protocol in "LCG"
    }
    order = leaves_list(tree).tolist()
    places = classical_mds(proximity)
    accuracy = values(rng.uniform(40, 95, clients))
    return Page(
        title=f"All charts {EVIL}",
        summary=("A paragraph with `code` and <b>no markup</b> & an ampersand.", EVIL),
        facts=(Fact(name="L", value="93.5 %", note="own models"), Fact(name=EVIL, value=EVIL, note=EVIL)),
        sections=(
            Section(
                heading="Lines and bars",
                text=(EVIL,),
                blocks=(
                    Switch(label="Protocol", variants=tuple(curves.items())),
                    Bars(
                        title="Accuracy over thresholds",
                        x_label="threshold",
                        y_label="groups",
                        categories=("2", "4", "8", "16", "32"),
                        series=(Series(name="groups", y=values([20, 11, 4, 4, 1])),),
                        line=Series(
                            name="accuracy C",
                            y=values([60, 70, None, 89, 82]),
                            low=values([58, 68, None, 88, 80]),
                            high=values([62, 72, None, 90, 84]),
                        ),
                        line_label="accuracy C (%)",
                        digits=0,
                    ),
                    Bars(
                        title="Gain against SOLO",
                        x_label="client",
                        y_label="points",
                        categories=tuple(names),
                        series=(Series(name="gain", y=values(rng.normal(2, 5, clients))),),
                    ),
                    Bars(
                        title="Labels of groups",
                        x_label="group",
                        y_label="samples (%)",
                        categories=("0", "1", EVIL),
                        series=tuple(Series(name=f"label {k}", y=values(rng.uniform(1, 9, 3))) for k in range(10)),
                        stacked=True,
                    ),
                    Lines(
                        title="Nothing was measured",
                        x_label="MB",
                        y_label="accuracy (%)",
                        series=(Series(name="none", x=values([1, 2]), y=values([math.nan, None])),),
                        log_x=True,
                    ),
                ),
            ),
            Section(
                heading=EVIL,
                blocks=(
                    HeatMap(
                        title="Proximity",
                        rows=tuple(names[i] for i in order),
                        columns=tuple(names[i] for i in order),
                        values=tuple(values([*proximity[i][order][:-1], math.nan if i == 3 else 1.0]) for i in order),
                        unit="angle in degrees",
                        row_label="client",
                        column_label="client",
                        groups=tuple(labels[i] for i in order),
                    ),
                    tree_of(tree, names, labels, title="Tree", unit="angle in degrees", cut=2.0),
                    Scatter(
                        title="Map",
                        map=True,
                        points=tuple(
                            Point(name=n, x=float(p[0]), y=float(p[1]), group=None if i == 5 else labels[i])
                            for i, (n, p) in enumerate(zip(names, places, strict=True))
                        ),
                        groups=("group 0", "group 1", EVIL),
                    ),
                    Scatter(
                        title="Pruned share",
                        x_label="pruned (%)",
                        y_label="accuracy L (%)",
                        points=tuple(
                            Point(name=n, x=float(i), y=a) for i, (n, a) in enumerate(zip(names, accuracy, strict=True))
                        ),
                    ),
                    Distribution(
                        title="Accuracy per client",
                        x_label="accuracy (%)",
                        samples=(
                            Sample(name="pacfl L", values=accuracy, names=tuple(names)),
                            Sample(name=EVIL, values=values(rng.uniform(20, 70, clients)), names=tuple(names)),
                            Sample(name="none", values=(None, None), names=("a", "b")),
                        ),
                    ),
                    HeatMap(
                        title="Labels of clients",
                        rows=tuple(str(k) for k in range(10)),
                        columns=tuple(names),
                        values=tuple(values(rng.integers(0, 50, clients)) for _ in range(10)),
                        unit="samples",
                        row_label="label",
                        column_label="client",
                        digits=0,
                    ),
                ),
            ),
            Section(
                heading="Texts",
                blocks=(
                    Table(
                        title="A table",
                        columns=("method", "L", "groups", "difference", EVIL, *(f"column {k}" for k in range(12))),
                        rows=(
                            ("pacfl", 93.5, 4, -2.5, EVIL, *range(12)),
                            ("solo", None, 10, -10.0, "b", *range(12)),
                            ("fedavg", math.nan, 2, 3.0, "a", *range(12)),
                            ("ifca", 9.25, None, 0.0, "c", *range(12)),
                        ),
                        bold=((0, 1),),
                        note="A note.",
                    ),
                    Code(title="The command", text=f"coterie run --algorithm pacfl {EVIL}"),
                ),
            ),
        ),
    )
