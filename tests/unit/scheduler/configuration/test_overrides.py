"""Overrides: text under dotted names, and which file the settings come from."""

import os
from pathlib import Path

import pytest

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.overrides import load_settings, nested_values
from hourhand.scheduler.configuration.settings import CONFIG_VARIABLE, Settings


def test_a_file_named_in_code_is_read_instead_of_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the environment, which other threads read too, is left as it is."""
    mine, theirs = tmp_path / "mine.toml", tmp_path / "theirs.toml"
    mine.write_text('[group]\nid = "mine"\ncommit_interval_ms = 900\n')
    theirs.write_text('[group]\nid = "theirs"\n')
    monkeypatch.setenv(CONFIG_VARIABLE, str(theirs))
    monkeypatch.setenv("HOURHAND_GROUP__COMMIT_INTERVAL_MS", "800")

    settings = Settings(config_file=mine)

    assert (settings.group.id, settings.group.commit_interval_ms) == ("mine", 800)
    assert os.environ[CONFIG_VARIABLE] == str(theirs)
    assert Settings(config_file=None).group.id == "theirs"


def test_an_override_reaches_a_group_a_list_and_an_entry_of_a_mapping() -> None:
    """A mapping's own keys hold dots too, and the last of a name counts."""
    given = [
        ("group.id", "blue"),
        ("group.id", "green"),
        ("cassandra.contact_points", "a, b"),
        ("cassandra.datacenter", "null"),
        ("kafka.consumer_properties.fetch.min.bytes", "5"),
    ]

    assert nested_values(given, "--set") == {
        "group": {"id": "green"},
        "cassandra": {"contact_points": ["a", "b"], "datacenter": None},
        "kafka": {"consumer_properties": {"fetch.min.bytes": "5"}},
    }


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("group.idd=blue", "no such setting; did you mean group.id?"),
        ("group=blue", "--set group is a group: name a setting of it"),
        ("group.id.x=blue", "group.id is not a group"),
        ("cassandra.replication=[", "--set cassandra.replication: this is not JSON"),
        ("group.id blue", "expected name=value"),
    ],
)
def test_an_override_that_means_nothing_is_named(override: str, complaint: str) -> None:
    """With what to do instead, where that can be known."""
    with pytest.raises(SettingsInvalid) as error:
        load_settings(None, [override])
    assert complaint in str(error.value)
