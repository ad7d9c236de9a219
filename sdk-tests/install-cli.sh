#!/bin/sh
# Installs the official command-line client of protocol 0.11.0 into target/cli, where the tests look for it. Does nothing
# when that version is there already, so that a cached target folder makes this free.
set -eu

version=0.14.0
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
into=$root/target/cli

if "$into/bin/iggy" --version 2>/dev/null | grep -qF "$version"; then
    echo "iggy $version is installed"
    exit 0
fi
# An hour is far more than a build takes; a stuck download must not hold a job for ever.
timeout 3600 cargo install iggy-cli --version "$version" --locked --root "$into"
