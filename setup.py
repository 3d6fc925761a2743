"""Builds the compiled trainer where there is a C++ compiler; without one Coterie installs all the same."""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("src/coterie/native")
FLAGS = [
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility-inlines-hidden",
]

setup(
    ext_modules=[
        Extension(
            "coterie.native._library",
            sources=sorted(str(path) for path in NATIVE.glob("*.cpp")),
            depends=sorted(str(path) for path in [*NATIVE.glob("*.h"), *NATIVE.glob("*.inc")]),
            extra_compile_args=FLAGS,
            language="c++",
            optional=True,
        )
    ]
)
