#!/usr/bin/env bash
# The main job: sets up, runs the operator suite and the OOM suite, records every case. See --help.
# shellcheck source=scripts/setup.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/scripts/setup.sh"

usage() {
  cat <<'TEXT'
Usage: ./run_all_tests.sh [options] [-- pytest arguments]

Makes .venv (first run only), runs ssinghal/tests and ssinghal/oom_tests on a Tenstorrent card, a simulator or a virtual
device, writes results/<run>/ (run.json, records.jsonl, summary.txt; results/latest points to it), prints the summary and
reports the run: results/<run>/report/report.html beside documents and tables.

  --board NAME    board to run on: n150 (default), n300, p100, p150 … (ssinghal doctor lists them), or the whole path of a
                  machine's own cluster descriptor
  --device MODE   auto (default), silicon, simulator or virtual
  --memory NAME   put inputs into dram or l1 (default: what each catalog says)
  --no-torch      install without torch: a virtual device needs none, comparing values on a card does
  --capture       install what captures catalogs from models: torch, torchvision, timm, transformers, diffusers
  --ultralytics   the same with ultralytics, whose licence is AGPL-3.0
  --setup-only    stop after installing
  --help          this text

Arguments after -- go to pytest, which runs in the folder of this script: -- -k add, -- ssinghal/tests/test_view.py -v.
PYTHON=/path/to/python chooses the interpreter (3.12 or 3.10); else PATH, pyenv and uv are searched, 3.12 first.

Exit code: 0 nothing unexpected happened, 1 something did, 2 bad use or no usable Python, 130 interrupted.
TEXT
}

extras=device,dev
setup_only=false
options=(--oom-results results)
while [ $# -gt 0 ]; do
  case $1 in
    --board | --device | --memory)
      case ${2:-} in "" | -*) refuse "option $1 needs a value; see --help" ;; esac
      options+=("--oom-${1#--}" "$2")
      shift
      ;;
    --board=?* | --device=?* | --memory=?*) options+=("--oom-${1#--}") ;;
    --no-torch) extras=${extras/device/virtual} ;;
    --capture) extras+=,capture ;;
    --ultralytics) extras+=,ultralytics ;;
    --setup-only) setup_only=true ;;
    --help | -h) usage && exit ;;
    --) shift && break ;;
    *) refuse "unknown option $1; see --help (arguments for pytest go after --)" ;;
  esac
  shift
done

make_environment .venv "$extras"
if $setup_only; then
  echo "Ready: $root/.venv"
  exit
fi

cd "$root" # without paths among its arguments, pytest runs the testpaths of pyproject.toml: both suites
last_run() { readlink results/latest || true; }
before=$(last_run)
code=0
.venv/bin/python -m pytest "${options[@]}" "$@" || code=$?
code=$(exit_code_of_pytest "$code")
if [ "$(last_run)" != "$before" ]; then .venv/bin/python -m ssinghal report || code=$?; fi
exit "$code"
