"""The table of docs/team.md: which service may ask Docker's engine what, read from the proxy that allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from brokerproof.bounded_reading import load_yaml

_MARK = "<!-- `make docs` writes this table from deploy/engine/haproxy.cfg and docker-compose.yaml -->\n"
_FRONTEND = re.compile(r"((?:^#.*\n)+)^frontend .*\n *bind (\S+)/docker\.sock .*\n", re.MULTILINE)
_RULE = re.compile(r"^ *http-request allow if \{ method ([A-Z ]+) \} \{ var\(txn\.call\) -m reg '\^(.*?)\$' \}")


def fill_table(page: str, home: Path) -> str:
    """Return the page with its table of calls as the files in the directory `home` make it."""
    before, mark, after = page.partition(_MARK)
    if not mark:
        raise ValueError(f"docs/team.md has no line {_MARK.strip()}")
    rest = after[re.search(r"^(?!\|)", after, re.MULTILINE).start() :]  # type: ignore[union-attr]
    return f"{before}{mark}" + "\n".join(_tabulate_calls(home)) + f"\n{rest}"


def _tabulate_calls(home: Path) -> Iterator[str]:
    proxy = (home / "deploy" / "engine" / "haproxy.cfg").read_text(encoding="utf-8")
    services = load_yaml((home / "docker-compose.yaml").read_text(encoding="utf-8"))["services"]
    # The parts between frontends: comment, directory of the socket, rules, comment, …
    _, *parts = _FRONTEND.split(proxy)
    yield "| service | call | what for |"
    yield "|---|---|---|"
    for directory, rules in zip(parts[1::3], parts[2::3], strict=True):
        owners = [name for name, service in services.items() if name != "engine" and _has(service, directory)]
        lines = rules.splitlines()
        allowing = [number for number, line in enumerate(lines) if "http-request allow" in line]
        for number in allowing:
            rule = _RULE.match(lines[number])
            if rule is None or not lines[number - 1].lstrip().startswith("# "):
                raise ValueError(f"haproxy.cfg allows without a comment or a call: {lines[number].strip()}")
            yield f"| {', '.join(owners)} | `{_show(*rule.groups())}` | {lines[number - 1].strip(' #.')} |"


def _has(service: dict[str, list[str]], directory: str) -> bool:
    return any(str(volume).split(":")[1:2] == [directory] for volume in service.get("volumes", ()))


def _show(methods: str, pattern: str) -> str:
    """Return methods and path of a call, without its query: `GET /containers/NAME/json`."""
    named = re.sub(r"'\"\$\{(\w+)\}\"'", lambda name: name[1].upper(), pattern)
    path = re.sub(r"\\\?(?:[^|()]|\([^)]*\))*", "", named)
    # A vertical bar would end the cell.
    return f"{methods.replace(' ', ', ')} {path.translate(str.maketrans('(|)', '{,}'))}"
