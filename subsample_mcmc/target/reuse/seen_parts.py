"""What was noticed of parts of rows, remembered: files that nobody wrote since are not read again.

A part whose file has the size and the time of then is taken to hold what it held. Whoever reads it
still compares it with that, and refuses rows that are others.
"""

from typing import Any

from subsample_mcmc.target.sources.parts import SeenPart
from subsample_mcmc.target.sources.source import Source

SHOWN = 3  # parts that a message names


def seen_parts(source: Source) -> dict[str, Any]:
    """What JSON holds of it: rows and digests, and what tells that none was written."""
    seen = source.noticed()
    return {
        "columns": source.described(), "looked": list(source.looked), "stamps": source.stamps(),
        "rows": [s.rows for s in seen], "digests": [s.digest for s in seen],
        "probes": [s.probe for s in seen],
    }  # fmt: skip


def trust(source: Source, before: dict[str, Any]) -> None:
    """Take the parts for what they were, if no file was written since and all are there."""
    stamps = source.stamps()
    if not stamps or None in stamps or stamps != before["stamps"]:
        return
    if before["columns"] != source.described():
        return
    for part, rows in enumerate(before["rows"]):
        one, other = before["digests"][part]
        source.seen[part] = SeenPart(rows, (one, other), None, before["probes"][part])
        source.looked[part] = before["looked"][part]


def parts_that_differ(source: Source, before: dict[str, Any]) -> list[str]:
    """Names of parts that hold other rows than then; none if they are cut otherwise."""
    now = source.noticed()
    if len(now) != len(before["rows"]):
        return []
    both = zip(now, before["rows"], before["digests"], strict=True)
    wrong = [i for i, (s, rows, d) in enumerate(both) if (s.rows, s.digest) != (rows, tuple(d))]
    more = [f"{len(wrong) - SHOWN} more parts"] if len(wrong) > SHOWN else []
    return [source.part_name(i) for i in wrong[:SHOWN]] + more
