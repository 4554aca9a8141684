"""Mutants of which build runs: compiled modules that do not belong together are left alone."""

from typing import Final

from tests.mutants.mutant import Mutant

_FITS: Final = "compiled modules run all or none (docs/explanation/decisions.md)"
_TESTS: Final = "tests/test_builds.py"
_LEFT_ALONE: Final = f"{_TESTS}::test_what_does_not_belong_together_is_left_alone"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a compiled module of another build is taken",
        breaks=_FITS,
        file="builds.py",
        old="        if found != checksum:\n",
        new="        if False:\n",
        killed_by=_LEFT_ALONE,
    ),
    Mutant(
        name="an edited source is not seen",
        breaks=_FITS,
        file="builds.py",
        old="        if _checksum(source_of(folder, name)) != checksum:\n",
        new="        if _checksum(source_of(folder, name)) is None:\n",
        killed_by=_LEFT_ALONE,
    ),
    Mutant(
        name="what does not fit is only said",
        breaks=_FITS,
        file="builds.py",
        old="        sys.meta_path.insert(0, SourcesOnly(FOLDER, names))\n",
        new="        pass\n",
        killed_by=_LEFT_ALONE,
    ),
)
