"""Sentences of pydantic's, none of which a user reads."""

import re

PHRASES = re.compile(
    r"\b[Ii]nputs?\b|valid (string|integer|number|dictionary|boolean|list)|should (be|have)"
    r"|Field required|not permitted|Value error|Assertion failed|unable to (parse|interpret)"
    r"|greater than or equal|less than or equal|constrained|function-|\[key\]",
)
"""Sentences of pydantic's, and names of its choices."""
