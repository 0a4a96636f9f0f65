"""Renew the golden answers, and print what has changed in them.

    python tests/golden/renew.py            # all of them (make golden)
    python tests/golden/renew.py slack api  # those of these verbs

An answer that agrees with the kept one stays as it is kept.  Read what is printed before you commit
it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import golden_api as api
import golden_net as net

#: What changes the answers' words or reading, as in ``tests/conftest.py``.
STARTS = ("TB_", "STANDIN_", "SLURM_", "OMPI_", "PMI", "MV2_", "TURNBUCKLE_")


def answered(verb: str, question: str, inputs: Path, place: Path) -> net.Answer:
    """Ask one question in a worker.  Raises RuntimeError with its name, since not every error can
    be sent between processes.
    """
    try:
        return (
            api.ask(question, inputs, place)
            if verb == api.VERB
            else net.ask(question, inputs, place)
        )
    except Exception as error:
        raise RuntimeError(f"{verb}: {question}: {error!r}") from None


def asked(verbs: Sequence[str], place: Path) -> dict[str, dict[str, net.Answer]]:
    """Ask all questions of some verbs -> answers by verb and question."""
    inputs = net.unpacked(place / "inputs")
    listed = [(net.verb_of(q), q) for q in net.questions()] + [(api.VERB, q) for q in api.ASKED]
    listed = [(verb, q) for verb, q in listed if verb in verbs]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(answered, verb, q, inputs, place / f"q{k}")
            for k, (verb, q) in enumerate(listed)
        ]
        out: dict[str, dict[str, net.Answer]] = {verb: {} for verb in verbs}
        for (verb, question), future in zip(listed, futures, strict=True):
            out[verb][question] = future.result()
    return out


def renewed(verb: str, now: dict[str, net.Answer]) -> list[str]:
    """Keep the new answers of a verb -> what has changed, in words."""
    was, out = net.kept(verb), []
    for question, answer in now.items():
        if question not in was:
            out.append(f"{question}\n  is new")
        elif found := list(net.differences(was[question], answer)):
            out.append(net.message(question, found))
        else:
            now[question] = was[question]
    out += [f"{question}\n  is asked no more" for question in was if question not in now]
    net.keep(verb, now)
    return out


def main() -> None:
    for name in [n for n in os.environ if n.startswith(STARTS)]:
        del os.environ[name]
    every = sorted({net.verb_of(q) for q in net.questions()} | {api.VERB})
    verbs = sys.argv[1:] or every
    if unknown := sorted(set(verbs) - set(every)):
        sys.exit(
            f"no question asks {', '.join(map(repr, unknown))}; the verbs are: "
            f"{', '.join(map(repr, every))}"
        )
    with tempfile.TemporaryDirectory() as folder:
        answers = asked(verbs, Path(folder))
    changes = [line for verb in verbs for line in renewed(verb, answers[verb])]
    for path in sorted(net.ANSWERS.iterdir()):
        if path not in [net.file_of(verb) for verb in every]:
            path.unlink()
            changes.append(f"{path.name}\n  is gone")
    print("\n".join(changes) or "nothing has changed")


if __name__ == "__main__":
    main()
