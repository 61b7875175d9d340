"""The command line's door: every command and option with values that do not belong there.

Decides what is an answer: an exit code, one clear sentence on standard error where it is not
0, and never a trace.  Commands that would start a node or the demo get only what must be refused.
"""

import json
import logging
import random
from pathlib import Path

from tests import command_line
from tests.fuzz import values

CORPUS = Path(__file__).parent / "corpus" / "commands.jsonl"
_KEY = "2999-02-09T01:41:12Z,a,b"
_GOOD_LINE = (
    b'{"orderingId":"good","scheduledTime":"2999-01-01T00:00:00Z","uniquenessKey":"%d",'
    b'"taskData":{},"version":1}'
)
_ONE_KEY = ("cancel", "run-now", "drop", "retry")


def corpus() -> list[list[str]]:
    """Return the command lines that found something once."""
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def try_commands(seed: int, count: int, folder: Path) -> int:
    """Run ``count`` command lines in this process; AssertionError where one is not answered."""
    rng = random.Random(f"commands {seed}")
    store = ["--set", f"embedded.folder={folder / 'data'}", "--set", "topic.partitions=2"]
    kept = corpus()
    for number in range(count):
        if number < len(kept):
            line = kept[number]
        elif rng.random() < 0.2:
            _try_file(rng, folder, store)
            continue
        else:
            line = _command(rng)
        _try_line(line + (store if rng.random() < 0.95 else []), folder)
    return count


def _try_line(line: list[str], folder: Path) -> str:
    result = command_line.run(*line, stdin="")
    # "run" logs to the standard error of its process, which here ends with the command.
    logging.getLogger().handlers.clear()
    shown = [part[:80] for part in line]
    ended = result.exception is None or isinstance(result.exception, SystemExit)
    assert ended, f"{shown}: {result.exception!r}"
    assert result.exit_code in {0, 2, 3, 4}, f"{shown}: {result.exit_code} {result.stderr[-300:]}"
    assert "Traceback" not in result.output, f"{shown}: {result.output[-300:]}"
    if result.exit_code:
        assert result.stderr.strip(), f"{shown}: failed without a word"
    del folder
    return result.stdout


def _command(rng: random.Random) -> list[str]:
    text = values.text(rng)
    instant = rng.choice((*values.INSTANTS, "+" + "9" * 400 + "d", "-1w", "+1h", text))
    key = rng.choice((_KEY, text, f"{instant},a,b", f"{_KEY},c", f"TaskKey({instant},a,b)"))
    number = rng.choice(("nan", "-1", "0", "9" * 400, "", "1e400", text))
    setting = rng.choice(
        (text, f"topic.{text}", f"topic.name={text}", f"tree.window.page_tasks={text}")
    )
    ordering = ["--ordering-id", rng.choice(("a", text))]
    return rng.choice(
        (
            ["schedule", *ordering, "--at", instant],
            ["schedule", *ordering, "--in", rng.choice((text, "9" * 400 + "s", "1h"))],
            [
                "schedule",
                *ordering,
                "--in",
                "1h",
                "--data",
                rng.choice((text, "@" + text, "[" * 9_000)),
            ],
            ["schedule", *ordering, "--in", "1h", "--uniqueness-key", text],
            [rng.choice(_ONE_KEY), key, "--wait", "0"],
            [rng.choice(_ONE_KEY), _KEY, "--wait", rng.choice(("nan", "-1", "x", "-inf", ""))],
            ["reschedule", key, "--to", instant, "--wait", "0"],
            ["reschedule", _KEY, "--in", text, "--wait", "0"],
            ["show", key, "-o", rng.choice(("json", "text", text))],
            ["list", "--from", instant, "--to", rng.choice(values.INSTANTS), "--limit", "5"],
            ["list", "--limit", number, "--state", rng.choice(("blocked", text))],
            ["list", "--after", key, "--ordering-id", text],
            ["outcome", rng.choice((text, f"{number}:{number}", "0:0", "٣:٣", "1:" + "9" * 19))],
            ["settings", "--set", setting],
            ["settings", "--config", text],
            ["run", "--executor", rng.choice((text, f"{text}:{text}", "os:path", "json:Nothing"))],
            ["run", "--executor", "os:path", "--metrics-port", number, "--log-level", text],
            ["demo", "--tasks", rng.choice(("-1", "0", "9" * 30, "x"))],
            ["migrate", "--set", setting],
            [text, *ordering],
        )
    )


def _try_file(rng: random.Random, folder: Path, store: list[str]) -> None:
    """Schedule a file of good lines with junk between them: each good one is accepted."""
    junk = (
        b"{",
        b"\xff\xfe\0",
        b"[" * 50_000,
        b"a,b,c\n=cmd()",
        b'{"orderingId":"' + b"x" * 200_000,
        b'{"orderingId":"a","command":"cancel"}',
        b"",
        rng.randbytes(50).replace(b"\n", b""),
    )
    good = rng.randrange(4)
    lines = [_GOOD_LINE % number for number in range(good)]
    lines += [rng.choice(junk) for _ in range(rng.randrange(5))]
    rng.shuffle(lines)
    start = rng.choice((b"", b"\xef\xbb\xbf"))
    body = start + rng.choice((b"\n", b"\r\n")).join(lines) + rng.choice((b"", b"\n"))
    path = folder / "tasks.jsonl"
    path.write_bytes(body)
    answer = _try_line(["schedule", "--from-file", str(path), "-o", "json", *store], folder)
    assert json.loads(answer)["accepted"] == good, f"a good line was lost: {body[:300]!r}"
