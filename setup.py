"""Builds the compiled trainer where there is a C++ compiler; without one Coterie installs all the same.

The trainer is a plain shared library, which ctypes loads. It calls nothing of Python, so that its name has no tag of a
Python version, and one wheel (py3-none-<platform>) serves all versions. `COTERIE_NATIVE` says whether it is built:

auto      where it can be; else the wheel is that for any machine (py3-none-any); the default
always    or the build fails: for wheels that are to be released
never     the wheel for any machine
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = Path("src/coterie/native")
LIBRARY = "_library.dll" if os.name == "nt" else "_library.so"  # native/__init__.py loads it by this name
FLAGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility-inlines-hidden",
]
CLANG_CL = ["/std:c++17", "/EHsc", "/MT"]  # Windows has no C++ library of its own: it goes into ours
CLANG_CL += [f"/clang:{flag}" for flag in FLAGS if flag.startswith(("-O", "-f")) and "visibility" not in flag]
WISHES = ("auto", "always", "never")


class BuildLibrary(build_ext):
    """Builds a shared library that is no module of Python."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the library's path under that of the packages."""
        return os.path.join(*fullname.split(".")[:-1], LIBRARY)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return no PyInit function, which Windows would look for; what is exported, the sources say."""
        return ext.export_symbols

    def get_libraries(self, ext: Extension) -> list[str]:
        """Return no library of Python."""
        return ext.libraries

    def build_extension(self, ext: Extension) -> None:
        """Build it; where that fails, one that an earlier build left goes too."""
        if (
            self.compiler.compiler_type == "msvc"
        ):  # which has no vectors: clang-cl has, and links with what it links with
            if not self.compiler.initialized:
                self.compiler.initialize(self.plat_name)
            self.compiler.cc, ext.extra_compile_args = "clang-cl", CLANG_CL
        try:
            super().build_extension(ext)
        except Exception:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


class PlatformWheel(bdist_wheel):
    """A wheel for a platform, or, without the library, for any; in both cases for all versions of Python."""

    def run(self) -> None:
        """Build the library first: whether that succeeds says what kind of wheel it is."""
        self.run_command("build_ext")
        if not all(Path(path).exists() for path in self.get_finalized_command("build_ext").get_outputs()):
            self.distribution.ext_modules, self.root_is_pure = [], True
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Return what the wheel runs on."""
        *_, platform = super().get_tag()
        return "py3", "none", platform


def library(wish: str) -> list[Extension]:
    """Return what is to be compiled."""
    if wish not in WISHES:
        raise SystemExit(f"COTERIE_NATIVE={wish} is not valid: use one of {', '.join(WISHES)}")
    if wish == "never":
        return []
    return [
        Extension(
            "coterie.native._library",
            sources=sorted(str(path) for path in NATIVE.glob("*.cpp")),
            depends=sorted(str(path) for path in [*NATIVE.glob("*.h"), *NATIVE.glob("*.inc")]),
            extra_compile_args=FLAGS,
            language="c++",
            optional=wish == "auto",
        )
    ]


setup(
    ext_modules=library(os.environ.get("COTERIE_NATIVE") or "auto"),
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
)
