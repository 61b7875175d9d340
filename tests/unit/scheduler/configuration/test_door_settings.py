"""Settings beside the library: what earlier versions had says what to do in its place."""

from typing import Any

import pytest

from hourhand import Settings
from hourhand.actors.model.values.errors import SettingsInvalid


@pytest.mark.parametrize("name", ["otlp", "push_interval_ms"])
@pytest.mark.parametrize("value", ["true", "15000"])
def test_a_setting_that_pushed_metrics_says_what_does_it_now(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an environment variable and in code."""
    told = rf"observe: .*there is no {name} any more.* set observe.port.* scrape"
    gone: Any = {name: value}
    with pytest.raises(SettingsInvalid, match=told):
        Settings(observe=gone)

    monkeypatch.setenv(f"HOURHAND_OBSERVE__{name.upper()}", value)
    with pytest.raises(SettingsInvalid, match=told):
        Settings()
