"""A browser that opens one file and tells what the page did."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Visit:
    """What a browser made of one file.

    Attributes
    ----------
    document : the page's markup after its scripts have run.
    console : lines the page wrote to the console, violations of its content security policy among
        them.
    requests : addresses the page asked for; the browser's own errands are not among them.
    """

    document: str
    console: list[str]
    requests: list[str]

    def told(self, name: str = "probe") -> Any:
        """What a script of the test left in an attribute ``data-NAME``."""
        found = re.search(rf'data-{name}="([^"]*)"', self.document)
        assert found is not None, f"the script of {name} did not run"
        return json.loads(unescape(found[1]))


SWITCHES = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",  # a container has 64 MB of it
)


class Browser:
    """A headless Chromium that resolves no name."""

    def __init__(self, program: str) -> None:
        self.program = program

    def sheets(self, file: Path) -> int:
        """Count the sheets of A4 that a local file prints on."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            printed = Path(folder) / "printed.pdf"
            options = (
                f"--user-data-dir={folder}/user",
                "--no-pdf-header-footer",
                f"--print-to-pdf={printed}",
            )
            subprocess.run(
                [self.program, *SWITCHES, *options, file.as_uri()],
                capture_output=True,
                timeout=300,
                check=True,
            )
            return len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))

    def visit(self, file: Path, width: int = 1280) -> Visit:
        """Open one local file and let its scripts run."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            log = Path(folder) / "net.json"
            options = {
                "user-data-dir": f"{folder}/user",
                "window-size": f"{width},1400",
                "host-resolver-rules": "MAP * ~NOTFOUND",
                "virtual-time-budget": "4000",
                "enable-logging": "stderr",
                "v": "0",
                "log-net-log": str(log),
            }
            command = [
                self.program,
                *SWITCHES,
                *(f"--{k}={v}" for k, v in options.items()),
                "--dump-dom",
                file.as_uri(),
            ]
            done = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=300,
                check=True,
            )
            console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
            return Visit(done.stdout, console, _requests(json.loads(log.read_text("utf-8"))))

    def look(self, text: str, file: Path, script: str, width: int = 1280) -> Visit:
        """Open a page with a script of the test in it; the page is silent."""
        file.write_text(with_script(text, script), encoding="utf-8")
        visit = self.visit(file, width)
        assert visit.console == [] and visit.requests == []
        return visit


def with_script(text: str, script: str) -> str:
    """The same page with one more script in it, and with the script's digest in the page's
    policy.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    head, tail = text.rsplit("</body>", 1)
    return f"{head}<script>{script}</script></body>{tail}"


def _requests(log: dict[str, Any]) -> list[str]:
    """Requests that a page made: those of the browser itself carry ``not an origin``."""
    start = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [
        e["params"] for e in log["events"] if e["type"] == start and "url" in e.get("params", {})
    ]
    return [p["url"] for p in asked if p.get("initiator") != "not an origin"]
