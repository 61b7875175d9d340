"""What `make test` leaves out is in `make test-all`, and the page that says so is true."""

import re

import yaml

from tests.tidy.source import ROOT, project_metadata, report, sources

_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
_PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
_TARGETS_OF = {
    "long": ("test-long",),
    "cluster": ("test-cluster",),
    "containers": ("test-containers",),
    "newcomer": ("test-install", "test-tutorial"),
    "browser": ("test-browser",),
}
"""The targets that run the tests of a marker that `make test` leaves out."""


def _words(variable: str) -> list[str]:
    found = re.search(rf"^{variable} :?= ((?:.*\\\n)*.*)$", _MAKEFILE, re.MULTILINE)
    assert found is not None, f"the Makefile does not say {variable}"
    return found[1].replace("\\\n", " ").split()


def _table_of_long_tests() -> str:
    heading = "| only `make test-long` runs |"
    return heading + _PAGE.partition(heading)[2].partition("\n\n")[0]


def _workflow(name: str) -> dict[str, dict[str, dict[str, dict[str, list[str]]]]]:
    text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
    jobs: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = yaml.safe_load(text)["jobs"]
    return jobs


def test_each_marker_that_is_left_out_has_targets_in_the_long_run() -> None:
    """A marker that neither runs is a test that nobody runs."""
    left_out = [word for word in _words("LEFT_OUT") if word != "or"]

    assert sorted(left_out) == sorted(_TARGETS_OF)
    assert set(_words("NIGHT")) >= {each for targets in _TARGETS_OF.values() for each in targets}


def test_each_target_of_the_long_run_exists() -> None:
    """And `make test` is one of them."""
    targets = set(re.findall(r"^([a-z-]+):", _MAKEFILE, re.MULTILINE))

    assert set(_words("NIGHT")) <= targets
    assert "test" in _words("NIGHT")


def test_the_page_lists_each_file_of_long_tests() -> None:
    """In the row of the reason why it is too long."""
    listed = re.findall(r"`(tests/\S+\.py)`", _table_of_long_tests())
    long = {source.name for source in sources("tests") if "pytest.mark.long" in source.text}
    long.discard("tests/tidy/test_levels.py")

    assert sorted(listed) == sorted(long)


def test_the_targets_that_the_page_names_are_in_the_long_run() -> None:
    """A page that sends a reader nowhere helps nobody."""
    named = set(re.findall(r"`(?:make )?([a-z-]+)`", _table_of_long_tests()))

    assert named <= set(_words("NIGHT"))


def test_each_folder_of_tests_is_in_one_part() -> None:
    """CI runs the parts side by side instead of the whole."""
    parts = [folder for part in _words("PARTS") for folder in _words(f"PART_{part}")]
    folders = {
        path.parent.relative_to(ROOT).parts[:2] for path in (ROOT / "tests").rglob("test_*.py")
    }

    assert len(parts) == len(set(parts))
    report(f"{'/'.join(each)} is in no part" for each in folders if "/".join(each) not in parts)


def test_the_workflows_run_all_parts_and_the_whole_long_run() -> None:
    """On the oldest and on the newest Python that the classifiers name."""
    test = _workflow("ci.yaml")["test"]["strategy"]["matrix"]
    nightly = _workflow("nightly.yaml")["all"]["strategy"]["matrix"]
    classifiers = project_metadata()["classifiers"]
    assert isinstance(classifiers, list)
    versions = [each.rpartition(" ")[2] for each in classifiers if ":: 3." in each]

    assert test["part"] == _words("PARTS")
    assert test["python"] == [versions[0], versions[-1]]
    assert sorted(" ".join(nightly["targets"]).split()) == sorted(_words("NIGHT"))
