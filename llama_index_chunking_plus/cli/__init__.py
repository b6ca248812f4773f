"""The command line: ``chunking-plus split | ingest | query | demo | evaluate | select | probe | view``.

`app` holds the commands, `evaluation` those that compare strategies; `files` reads documents, `options` builds parsers
and models, `strategies` what is compared; `store` is a folder that remembers, `levels` searches one that holds several
levels; `screen` is what is written to.
Everything below is the public API, used as any program would use it.
"""

from __future__ import annotations

import sys

from llama_index_chunking_plus.errors import MissingExtraError


def main() -> None:
    """Run the command line; a missing extra is one line on stderr and exit code 1."""
    try:
        import rich  # noqa: F401, PLC0415  the extra may be missing
        import typer  # noqa: F401, PLC0415  the extra may be missing
    except ImportError:
        sys.exit(f"error: {MissingExtraError('typer', 'cli')}")
    from llama_index_chunking_plus.cli.app import run_app  # noqa: PLC0415  needs the extra

    run_app()
