#!/usr/bin/env bash
# The main job: sets up, runs the operator suite and the OOM suite, records every case. See --help.
# shellcheck source=scripts/setup.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/scripts/setup.sh"

usage() {
  cat <<'TEXT'
Usage: ./run_all_tests.sh [options] [-- pytest arguments]

Creates .venv (first run only) and runs ssinghal/tests and ssinghal/oom_tests on a Tenstorrent card, a simulator or a
virtual device. Writes results/<run>/ (run.json, records.jsonl, summary.txt; results/latest points to it), prints the
summary and builds the report: results/<run>/report/report.html with documents and tables.

  --board NAME    board to run on: n150 (default), n300, p100, p150 … (ssinghal doctor lists them), or the path of a
                  machine's cluster descriptor
  --device MODE   auto (default), silicon, simulator or virtual
  --memory NAME   put operands into dram or l1 (default: what each catalog specifies)
  --torch         install torch, which compares values and records models (default: only where there is a card or a
                  simulator)
  --no-torch      install without torch, also where there is a card
  --capture       install the packages for capturing catalogs from models: torch, torchvision, timm,
                  transformers, diffusers
  --ultralytics   like --capture, plus ultralytics (licensed under AGPL-3.0)
  --dev           install torch and the tools for working on ssinghal itself
  --setup-only    stop after installing
  --help          this text

Arguments after -- are passed to pytest, which runs in the folder of this script: -- -k add, -- ssinghal/tests/test_view.py -v.
PYTHON=/path/to/python selects the interpreter (3.12 or 3.10); otherwise PATH, pyenv and uv are searched, 3.12 first.

Exit code: 0 nothing unexpected, 1 unexpected results, 2 usage error or no usable Python, 130 interrupted.
TEXT
}

# Only comparing values on a card or a simulator needs torch, which is five times as large as everything else.
device=virtual
if compgen -G "/dev/tenstorrent/*" >/dev/null || [ -n "${TT_METAL_SIMULATOR:-}" ]; then device=device; fi
more=""
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
    --torch) device=device ;;
    --no-torch) device=virtual ;;
    --dev) device=device more+=,dev ;;
    --capture) more+=,capture ;;
    --ultralytics) more+=,ultralytics ;;
    --setup-only) setup_only=true ;;
    --help | -h) usage && exit ;;
    --) shift && break ;;
    *) refuse "unknown option $1; see --help (arguments for pytest go after --)" ;;
  esac
  shift
done

make_environment .venv "$device$more"
if $setup_only; then
  echo "Ready: $root/.venv. Next: . .venv/bin/activate && ssinghal doctor"
  exit
fi

cd "$root" # without paths among its arguments, pytest runs the testpaths of pyproject.toml: both suites
last_run() { readlink results/latest || true; }
before=$(last_run)
code=0
# One line of progress instead of a dot for each test. Arguments given after -- win.
.venv/bin/python -m pytest -o console_output_style=classic --oom-progress "${options[@]}" "$@" || code=$?
code=$(exit_code_of_pytest "$code")
if [ "$(last_run)" != "$before" ]; then .venv/bin/python -m ssinghal report || code=$?; fi
exit "$code"
