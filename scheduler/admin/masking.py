"""Settings as plain values, with everything that looks like a secret hidden."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from hourhand.scheduler.configuration.settings import Settings

_MASK = "**********"
_SECRET_WORDS = ("password", "secret", "token", "credential", "jaas", "security_properties")


def masked(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain values, with everything that looks secret hidden."""
    return {name: _plain(name, value) for name, value in settings}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {part: _plain(part, inner) for part, inner in value}
    if value is None:
        return None
    if isinstance(value, dict):
        return {part: _plain(f"{name}.{part}", inner) for part, inner in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, SecretStr) or any(word in name.lower() for word in _SECRET_WORDS):
        return _MASK
    return list(value) if isinstance(value, tuple) else value
