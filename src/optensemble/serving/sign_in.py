"""The form that a browser signs in with."""

from __future__ import annotations

from optensemble.report.html import Html, element, html_page

SIGN_IN_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
"""The page loads and runs nothing, and its form goes back to where it came from."""

_OWNER = Html('<input type="text" autocomplete="username" value="optensemble" hidden>')
"""Whose token it is, for password managers; without a name it is not sent."""


def sign_in_page(wrong: str = "") -> str:
    """Return the page; ``wrong`` says why it is shown again."""
    field = Html('<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>')
    return html_page(
        "Sign in",
        element("h1", "Sign in"),
        element("p", "This server shows its page to those who have its token."),
        *([element("p", wrong, role="alert", class_="caution")] if wrong else []),
        element(
            "form",
            _OWNER,
            element("p", element("label", "Token ", for_="token"), field),
            element("p", element("button", "Sign in", type="submit")),
            method="post",
            action="/session",
        ),
        scripts=(),
    )
