"""What the commands write to: results on stdout, progress, warnings and errors on stderr."""

from __future__ import annotations

from rich.console import Console

out = Console(soft_wrap=True, markup=False, highlight=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, markup=False, highlight=False, emoji=False)
