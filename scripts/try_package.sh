#!/usr/bin/env bash
# Builds sdist and wheel, installs the wheel with its extra "virtual" in a new environment, and uses it in an empty folder:
# probe, run, report, plan, pytest with its own suites. Needs .venv with the extra dev, and pip's index. See run_checks.sh.
# shellcheck source=scripts/setup.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$root/.venv/bin/python

# A copy of what is tracked or new, so that what an earlier build left in the clone cannot get into the sdist.
mkdir "$work/source" "$work/empty"
git -C "$root" ls-files -z --cached --others --exclude-standard | tar -C "$root" -c --null --ignore-failed-read -T - 2>/dev/null | tar -C "$work/source" -x
"$python" -m build --no-isolation --outdir "$work/dist" "$work/source" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
sdist=$(compgen -G "$work/dist/*.tar.gz")
wheel=$(compgen -G "$work/dist/*.whl") # which build made from the sdist
wc -c "$sdist" "$wheel"

"$python" -m venv "$work/venv"
pins_of "$root/requirements.lock" virtual >"$work/pins.txt"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r "$work/pins.txt"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index "$wheel"
"$work/venv/bin/python" -m pip check
du -sm "$work/venv"

cd "$work/empty"
PATH=$work/venv/bin:$PATH
step() {
  local wanted=$1 code=0
  shift
  printf '+ %s\n' "$*"
  "$@" >"$work/step.log" 2>&1 || code=$?
  if [ "$code" != "$wanted" ]; then cat "$work/step.log"; echo "exit code $code, expected $wanted"; exit 1; fi
}
step 0 ssinghal --version
step 1 ssinghal probe add 1,64,640,400 1,64,640,400 --memory l1 --channels-last
step 0 ssinghal run resnet50-224x224
step 0 ssinghal report
step 0 ssinghal plan torchvision/resnet50 --input 1,3,224,224
step 0 pytest --pyargs ssinghal.tests -k "test_add" --oom-sample 2 -q
step 0 pytest --pyargs ssinghal.oom_tests -k "test_memory_estimation_add" --oom-sample 2 -q
test -f results/latest/report/report.html
echo "the package works on its own"
