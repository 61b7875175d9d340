"""Compares answers with the admin's description, so each test that asks proves it, too."""

import re
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from tests.tidy.openapi_descriptions import described_admin


def as_described(answer: httpx.Response) -> None:
    """Fail where an answer is not what the description says of its path."""
    found = _operation(answer.request.method.lower(), answer.request.url.path)
    if found is None:
        return
    place = (*found, str(answer.status_code))
    validator = _validator(*place, answer.headers["content-type"].partition(";")[0])
    if validator is not None:
        validator.validate(answer.json())


@cache
def _described() -> dict[str, Any]:
    return described_admin()


@cache
def _operation(method: str, path: str) -> tuple[str, str] | None:
    for template, methods in sorted(_described()["paths"].items()):
        pattern = re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(template))
        if method in methods and re.fullmatch(pattern, path):
            return template, method
    return None


@cache
def _validator(template: str, method: str, status: str, kind: str) -> Any:
    described = _described()
    answers = described["paths"][template][method]["responses"]
    assert status in answers, f"{method} {template} answers {status}, which is not described"
    answer = answers[status]
    if "$ref" in answer:
        answer = described["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    assert kind in answer["content"], f"{method} {template} answers {kind}, not as described"
    if not kind.endswith("json"):
        return None
    schema = {**answer["content"][kind]["schema"], "components": described["components"]}
    return jsonschema_rs.validator_for(schema, validate_formats=False)
