"""A Prometheus of a test's own, from Debian's package, with the settings of infra/prometheus made quick."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.servers.process import free_steady_port
from tests.e2e.process_marks import soon
from tests.support.programs import needed

INFRA = Path(__file__).parents[2] / "infra"
SETTINGS = INFRA / "prometheus"
QUICK = "1s"
PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class Series:
    """One series of an answer: its labels, and its value now."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """The API of a server that runs."""

    url: str

    def query(self, expression: str) -> list[Series]:
        """An instant query. HTTPError for one that is not understood."""
        data = self._get("query", query=expression)
        assert data["resultType"] == "vector", data
        return [Series(one["metric"], float(one["value"][1])) for one in data["result"]]

    def firing(self) -> set[tuple[str, str]]:
        """The alerts that fire now, each with its datacenter."""
        alerts = self._get("alerts")["alerts"]
        return {
            (one["labels"]["alertname"], one["labels"].get("datacenter", ""))
            for one in alerts
            if one["state"] == "firing"
        }

    def _get(self, path: str, **query: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False


def rules() -> list[dict[str, Any]]:
    """The alerts, as the file has them."""
    (group,) = yaml.safe_load((SETTINGS / "photon-alerts.yml").read_text())["groups"]
    return list(group["rules"])


@contextmanager
def prometheus(folder: Path, scraped_port: int) -> Iterator[Prometheus]:
    """A server that scrapes every second, and whose alerts fire at once."""
    settings = yaml.safe_load((SETTINGS / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": QUICK, "evaluation_interval": QUICK}
    (scraped,) = settings["scrape_configs"]
    scraped["scrape_timeout"] = QUICK
    scraped["static_configs"][0]["targets"] = [f"127.0.0.1:{scraped_port}"]
    at_once = [rule | {"for": "0s"} for rule in rules()]
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    alerts = {"groups": [{"name": "photon", "rules": at_once}]}
    (folder / "photon-alerts.yml").write_text(yaml.safe_dump(alerts))
    server = Prometheus(f"http://127.0.0.1:{free_steady_port()}")
    command = [
        needed("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={server.url.removeprefix('http://')}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            assert soon(server.is_ready), (folder / "log").read_text()
            yield server
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
