"""A client of `optensemble serve`, with the standard library alone.

    python client.py decide new.csv day > decisions.json    # a table, and its column of ids
    python client.py observe later.csv day                  # a table with labels
    python client.py status

OPTENSEMBLE_URL and OPTENSEMBLE_TOKEN come from the environment. A request whose answer is lost is sent again with the
same ids: a row is decided once, so that the answer is the decision that was made, and labels are learned once.
"""

import csv
import http.client
import json
import math
import os
import random
import sys
import time
import urllib.error
import urllib.request

AGAIN = (408, 502, 503, 504)  # all other refusals are final: the same request would be refused again


class Client:
    """Asks a server, and goes on asking for ``patience`` seconds while it cannot be reached."""

    def __init__(self, url="http://localhost:8000", token="", patience=120.0):
        self.url, self.patience = url.rstrip("/"), patience
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def decide(self, rows, ids=None):
        """Return a decision for each row; ids are left out where rows have them in the log's column of ids."""
        body = {"rows": rows} if ids is None else {"rows": rows, "ids": ids}
        return self.ask("/decide", body)["decisions"]

    def observe(self, ids, labels):
        """Give the labels of rows, as objects with a number, or null, for each name of a label."""
        return self.ask("/observe", {"ids": ids, "labels": labels})

    def status(self):
        """Return where the ensemble stands."""
        return self.ask("/status")

    def ask(self, path, body=None):
        """Return the answer to a request."""
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = self.headers if data is None else {**self.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        ends, pause = time.monotonic() + self.patience, 0.2
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                why = f"{error.code}: {error.read().decode(errors='replace')}"
                if error.code not in AGAIN:
                    raise ValueError(why) from None
            except (OSError, http.client.HTTPException) as error:  # the connection was refused, or lost
                why = str(error) or type(error).__name__
            if time.monotonic() > ends:
                raise ConnectionError(f"no answer from {self.url} for {self.patience:g} seconds: {why}")
            time.sleep(pause * random.uniform(0.5, 1.0))  # clients that were cut off together come back one by one
            pause = min(2 * pause, 5.0)


def value(text):
    """Return a cell of a CSV table as JSON has it: a number, text, or null."""
    try:
        number = float(text)
    except ValueError:
        return text or None
    return number if math.isfinite(number) else None


def main(what, path=None, id_column=None):
    """Decide the rows of a table, give labels, or show the status."""
    client = Client(os.environ.get("OPTENSEMBLE_URL", "http://localhost:8000"), os.environ.get("OPTENSEMBLE_TOKEN", ""))
    if what == "status":
        return client.status()
    with open(path, encoding="utf-8", newline="") as file:
        table = [
            {name: cell if name == id_column else value(cell) for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]
    parts = [table[start : start + 1000] for start in range(0, len(table), 1000)]
    if what == "decide":
        return [decision for rows in parts for decision in client.decide(rows)]
    return [client.observe([row[id_column] for row in rows], rows) for rows in parts]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:]), indent=1))

# ruff: noqa: T201
