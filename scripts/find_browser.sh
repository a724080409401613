#!/usr/bin/env bash
# Finds Chromium for the tests of the report page, and installs it where that can be done.
set -euo pipefail

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
    exit 0
fi
.venv/bin/python -m playwright install chromium && exit 0
echo "error: no Chromium is here, which make test-page needs; install it, such as apt-get install chromium" >&2
exit 2
