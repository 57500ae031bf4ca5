"""What a scrape of ``/metrics`` told, by the parser of Prometheus's own client."""

from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

GIVE_UP_S = 5.0


class Scraped:
    """``families`` maps each metric's name, as queries write it, to its type; ``told`` each series to its value."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, str] = {}
        self.helps: dict[str, str] = {}
        self.told: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.labels: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            self.families[name] = family.type
            self.helps[name] = family.documentation
            for sample in family.samples:
                self.told[sample.name, frozenset(sample.labels.items())] = sample.value
                self.labels.setdefault(name, set()).update(sample.labels)

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one series; None when it is not there."""
        return self.told.get((name, frozenset(labels.items())))

    @property
    def names(self) -> set[str]:
        """What queries may name: ``_bucket``, ``_sum`` and ``_count`` of histograms too."""
        return {name for name, _ in self.told}


def scrape(port: int, path: str = "/metrics") -> Scraped:
    """One scrape, over a real socket; raises OSError."""
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=GIVE_UP_S) as answer:
        return Scraped(answer.read().decode())


def health(port: int, path: str, timeout_s: float = GIVE_UP_S) -> int | None:
    """The status that ``/livez`` or ``/readyz`` answers with; None when there is no answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout_s) as answer:
            return int(answer.status)
    except URLError as error:
        return getattr(error, "code", None)
    except OSError:
        return None
