"""The command line: ``chunking-plus split | ingest | query | demo | evaluate | select | probe | view``.

`app` holds the commands, `evaluation` those that compare strategies; `files` reads documents, `options` builds parsers
and models, `strategies` what is compared; `store` is a folder that remembers, `levels` searches one that holds several
levels; `screen` is what is written to.
Everything below is the public API, used as any program would use it.
"""

from __future__ import annotations

import sys

from llama_index_chunking_plus.errors import MissingExtraError

_INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended


def main() -> None:
    """Run the command line; a missing extra, or Ctrl-C at any time, is one line on stderr."""
    try:
        _run()
    except KeyboardInterrupt:  # before there are commands, or after
        sys.stderr.write("interrupted\n")
        sys.exit(_INTERRUPTED)


def _run() -> None:
    try:
        import rich  # noqa: F401, PLC0415  the extra may be missing
        import typer  # noqa: F401, PLC0415  the extra may be missing
    except ImportError:
        sys.exit(f"error: {MissingExtraError('typer', 'cli')}")
    from llama_index_chunking_plus.cli.app import run_app  # noqa: PLC0415  needs the extra

    run_app()
