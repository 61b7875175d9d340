"""Finds out from git which files differ from a commit; never decides what that means."""

import subprocess
from pathlib import Path


class NothingToCompareError(Exception):
    """Git cannot tell what changed; the message says why and what to do instead."""


def changed_files(root: Path, base: str) -> list[str]:
    """Return the files below ``root`` that differ from ``base``, those that git does not know too.

    Names are relative to ``root``, with slashes; files that are gone are among them.  A branch
    is compared from where this one left it.  Raises NothingToCompareError without git, outside
    of a clone and for a base that is not a commit.
    """
    fork = _git(root, base, "merge-base", "HEAD", base)[0].strip()
    differing = _git(root, base, "diff", "--name-only", "--no-renames", "--relative", "-z", fork)
    unknown = _git(root, base, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({name for name in (*differing, *unknown) if name})


def _git(root: Path, base: str, *arguments: str) -> list[str]:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise NothingToCompareError(_advice("git is not installed")) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip() or f"{base} and HEAD have no commit in common"
        raise NothingToCompareError(_advice(said)) from None
    return done.stdout.split("\0")


def _advice(why: str) -> str:
    return (
        f"make check cannot tell what changed: {why}\n"
        "It needs a git clone, and a commit to compare with: make check BASE=main.\n"
        "Without one, run make lint and make test-unit."
    )
