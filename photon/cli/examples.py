"""How each command is called: the lines below its help. A test parses each of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "join": (
            "photon join pipeline.yaml                      # until Ctrl-C",
            "photon join pipeline.yaml --complete --json    # nothing will be added to the logs",
            "photon join pipeline.yaml -d east              # one datacenter, in this process",
        ),
        "land": (
            "photon land pipeline.yaml                      # beside joins, until Ctrl-C",
            "photon land pipeline.yaml --complete           # what is in the topics now",
        ),
        "status": (
            "photon status pipeline.yaml | head -1          # whether all is well",
            "photon status pipeline.yaml --check            # exit status 1 if somebody is needed",
            "photon status pipeline.yaml --json",
            "photon status pipeline.yaml --safe-to-delete   # log files that may go",
        ),
        "ui": (
            "photon ui pipeline.yaml                        # at http://127.0.0.1:4280/, until Ctrl-C",
            "photon ui pipeline.yaml --host 0.0.0.0         # for other machines, with a token",
        ),
        "verify": (
            "photon verify pipeline.yaml",
            "photon verify pipeline.yaml --record           # keep results for the next one",
            "photon verify pipeline.yaml --day 2026-01-31",
            "photon verify pipeline.yaml --from 2026-01-31T10:00 --to 2026-01-31T14:00",
        ),
        "sql": (
            "photon sql 'SELECT count(*) FROM joined' pipeline.yaml",
            "photon sql 'SELECT * FROM joined' pipeline.yaml --release 17 -o joined.parquet",
            "photon sql pipeline.yaml                       # a prompt",
        ),
        "releases": (
            "photon releases pipeline.yaml",
            "photon releases pipeline.yaml --as-of 2026-01-31T10:42 --json",
        ),
        "follow": (
            "photon follow pipeline.yaml --from now         # new rows as JSON lines, until Ctrl-C",
            "photon follow pipeline.yaml --to rows          # a file of lines for each release",
            "photon follow pipeline.yaml --to postgresql://localhost/events --changes",
        ),
        "recover": (
            "photon recover pipeline.yaml --dry-run         # what would be looked at again",
            "photon recover pipeline.yaml",
        ),
        "dead-letters": (
            "photon dead-letters pipeline.yaml              # how many, and why",
            "photon dead-letters pipeline.yaml --mend mine:mend --dry-run",
        ),
        "availability": (
            "photon availability pipeline.yaml",
            "photon availability pipeline.yaml --minute 2026-01-31T10:40",
        ),
        "backfill": (
            "photon backfill pipeline.yaml -d east --day 2026-01-31 --dry-run",
            "photon backfill pipeline.yaml -d east --day 2026-01-31 --rebuild",
        ),
        "compact": (
            "photon compact pipeline.yaml --dry-run         # how many files would be rewritten",
            "photon compact pipeline.yaml -d east",
        ),
        "unmatched": (
            "photon unmatched pipeline.yaml --dry-run       # how many are new, and why",
            "photon unmatched pipeline.yaml",
            "photon unmatched pipeline.yaml --anew          # what an earlier run passed over",
        ),
        "metrics": (
            "photon metrics pipeline.yaml                   # once, on standard output",
            "photon metrics pipeline.yaml --serve 9464 -d east",
        ),
        "acknowledge": ("photon acknowledge pipeline.yaml east --dry-run   # what is lost",),
        "trace": (
            "photon trace pipeline.yaml c42",
            "photon trace pipeline.yaml c42 --no-logs --json",
        ),
        "setup": ("photon setup     # once for each environment",),
        "registry": (
            "photon registry init pipeline.yaml",
            "photon registry state pipeline.yaml",
            "photon registry repair pipeline.yaml --endpoint https://ids-b.example",
        ),
        "registry gc": (
            "photon registry gc pipeline.yaml --dry-run     # what would be dropped",
            "photon registry gc pipeline.yaml",
        ),
        "registry init": ("photon registry init pipeline.yaml",),
        "registry backup": ("photon registry backup pipeline.yaml backup/registry",),
        "registry refill": (
            "photon registry refill pipeline.yaml --dry-run",
            "photon registry refill pipeline.yaml",
        ),
        "registry repair": (
            "photon registry repair pipeline.yaml --endpoint https://ids-b.example --dry-run",
            "photon registry repair pipeline.yaml --endpoint https://ids-b.example",
        ),
        "registry reshard": (
            "photon registry reshard pipeline.yaml --dry-run   # what the policy would do",
            "photon registry reshard pipeline.yaml 4",
        ),
        "registry state": (
            "photon registry state pipeline.yaml",
            "photon registry state pipeline.yaml --json",
        ),
        "hold": ("photon hold pipeline.yaml east",),
        "resume": ("photon resume pipeline.yaml east",),
        "retire": (
            "photon retire pipeline.yaml east --dry-run     # what would be done",
            "photon retire pipeline.yaml east --lake-is-gone",
        ),
    }
)


def epilog_of(command: str) -> str | None:
    """The end of a command's help; None where there are no examples."""
    if command not in EXAMPLES:
        return None
    lines = "\n".join(f"  {line}" for line in EXAMPLES[command])
    return f"\b\nExamples:\n{lines}"
