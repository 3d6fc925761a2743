"""How methods are called in papers and on pages, by the names under which they are registered."""

DISPLAY_NAMES = {
    "apfl": "APFL",
    "cfl": "CFL",
    "ditto": "Ditto",
    "fedavg": "FedAvg",
    "fedbabu": "FedBABU",
    "fedbn": "FedBN",
    "fedclust": "FedClust",
    "feddrift": "FedDrift",
    "fedem": "FedEM",
    "fedgroup": "FedGroup",
    "fedgrouprox": "FedGrouProx",
    "fednova": "FedNova",
    "fedper": "FedPer",
    "fedprox": "FedProx",
    "fedrep": "FedRep",
    "fedsoft": "FedSoft",
    "fesem": "FeSEM",
    "fielding": "FIELDING",
    "flag": "FLAG",
    "flis-dc": "FLIS (DC)",
    "flis-hc": "FLIS (HC)",
    "given-groups": "Given groups",
    "ifca": "IFCA",
    "kindred": "Kindred",
    "lg-fedavg": "LG-FedAvg",
    "mr-mtl": "MR-MTL",
    "mtl": "MTL",
    "pacfl": "PACFL",
    "per-fedavg": "Per-FedAvg",
    "pfedme": "pFedMe",
    "scaffold": "SCAFFOLD",
    "solo": "SOLO",
    "stocfl": "StoCFL",
    "sub-fedavg-hy": "Sub-FedAvg (Hy)",
    "sub-fedavg-st": "Sub-FedAvg (St)",
    "sub-fedavg-un": "Sub-FedAvg (Un)",
}


def display_name(label: str) -> str:
    """Return how a method is called, with its options; one that is not ours keeps its name.

    >>> display_name("flis-dc"), display_name("ifca:groups=4,lr=0.05"), display_name("my-own:p=5")
    ('FLIS (DC)', 'IFCA, groups = 4, lr = 0.05', 'my-own, p = 5')
    """
    name, _, options = label.partition(":")
    parts = [part.strip().replace("=", " = ", 1) for part in options.split(",") if part]
    return ", ".join([DISPLAY_NAMES.get(name, name), *parts])
