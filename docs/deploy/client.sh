#!/bin/sh
# decide rows, give labels, or show the status, with curl:
#   sh client.sh decide rows.json; sh client.sh observe labels.json; sh client.sh status
# A request whose answer is lost is sent again: its rows have ids, so that the answer is the decision that was made.
set -eu
url=${OPTENSEMBLE_URL:-http://localhost:8000}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# the token goes to curl by its standard input, where no list of processes shows it
authorization() { [ -z "${OPTENSEMBLE_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$OPTENSEMBLE_TOKEN"; }

# retried are lost connections, 408, 429 and 5xx; other refusals are no errors of curl's as long as there is no --fail
ask() {
    authorization | curl --config - --silent --show-error --max-time 30 --output "$answer" --write-out '%{http_code}' \
        --retry 30 --retry-all-errors --retry-max-time 120 "$@"
}

case $1 in
status) code=$(ask "$url/status") ;;
decide | observe) code=$(ask "$url/$1" --header 'Content-Type: application/json' --data-binary "@$2") ;;
*) echo "client.sh decide FILE | observe FILE | status" >&2; exit 2 ;;
esac
cat "$answer"
[ "$code" -lt 400 ]
