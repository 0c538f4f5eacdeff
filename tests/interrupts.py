"""Ctrl-C in processes that tests start."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Let a process be interrupted (``preexec_fn``): a shell has it ignored by what it runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
