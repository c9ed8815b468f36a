#!/usr/bin/env bash
# The test command of the README: every check of this repository, none of which needs a Tenstorrent card. See --help.
# shellcheck source=scripts/setup.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/scripts/setup.sh"

usage() {
  cat <<'TEXT'
Usage: ./run_checks.sh

Creates .venv (as run_all_tests.sh --dev --ultralytics does: with everything that captures models), .venv-base (base dependencies
only: neither torch nor ttnn), .venv-docs (mkdocs) and .venv-visualizer (ttnn-visualizer, which opens the exports for it),
installs Debian's chromium where that is missing and we are root, then runs the following, each even if one before it failed:
ruff check, ruff format, mypy, the import layers of pyproject.toml, the download of the other TTNN releases that tests use (450
MiB once, in the user's cache folder: ssinghal releases; without them those tests are skipped), a sample of the fuzzing of
all parsers (scripts/fuzz.py, where atheris has a wheel), the documentation as a site
(site/index.html), the tests of ssinghal itself (tests/), sdist and wheel (built, installed in a temporary environment and
used in an empty folder), the memory estimates in .venv-base, and both suites on a virtual device, with a fixed sample of
each operator's cases (all of them: ssinghal run).

Exit code: 0 all passed, 1 a check failed, 2 bad use, no usable Python or no chromium, 130 interrupted.
TEXT
}

case ${1:-} in
  "") ;;
  --help | -h) usage && exit ;;
  *) refuse "unknown option $1; see --help" ;;
esac

need_chromium
make_environment .venv device,dev,ultralytics
make_environment .venv-base ""
make_environment .venv-docs docs
make_environment .venv-visualizer visualizer
cd "$root"

outcomes=()
failed=0
check() {
  local name=$1 outcome=ok
  shift
  printf '\n=== %s\n' "$name"
  "$@" || { outcome=FAILED && failed=1; }
  outcomes+=("$outcome"$'\t'"$name")
}

check "ruff check" .venv/bin/python -m ruff check
check "ruff format" .venv/bin/python -m ruff format --check
check "mypy" .venv/bin/python -m mypy
check "import layers" .venv/bin/lint-imports --no-cache
# Where they cannot be fetched, the tests that ask them are skipped and say so.
if .venv/bin/python -m ssinghal releases add 0.66.0 0.75.0; then
  outcomes+=($'ok\tother TTNN releases')
else
  outcomes+=($'NOT THERE\tother TTNN releases: the tests that ask them were skipped')
fi
if .venv/bin/python -c "import atheris" 2>/dev/null; then
  check "fuzzing, a sample" .venv/bin/python scripts/fuzz.py --runs 2000 --seconds 2
else
  outcomes+=($'NOT THERE\tfuzzing: atheris has no wheel for this Python')
fi
check "documentation" .venv-docs/bin/python -m mkdocs build --strict
check "tests" .venv/bin/python -m pytest tests -n 2
check "the package, built and used on its own" scripts/try_package.sh
check "memory estimates without torch and ttnn" .venv-base/bin/python -m pytest ssinghal/oom_tests -k memory_estimation
check "both suites on a virtual device, a sample" .venv/bin/python -m pytest --oom-device virtual --oom-sample 12

printf '\n'
printf '%s\n' "${outcomes[@]}"
exit "$failed"
