# shellcheck shell=bash
# Shared by run_all_tests.sh and run_checks.sh (sourced, never run): finds a Python that ttnn has wheels for, creates
# environments that match their locks, and translates exit codes. Needs Linux, bash and the usual command-line tools.

set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
python_names=(python3.12 python3.10 python3 python)

unset PYTHONHOME PYTHONPATH # otherwise foreign packages could shadow the locked ones
trap 'exit 130' INT         # Ctrl-C ends the script too, not just the step that is running

# Prints a message on stderr and exits with 2 (usage error, or a machine that cannot run this).
refuse() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 2
}

# Translates pytest's exit code: 0 nothing unexpected, 1 unexpected results, 2 usage error (pytest's 4: bad option or
# catalog, 5: nothing selected).
exit_code_of_pytest() {
  case $1 in
    0) echo 0 ;;
    4 | 5) echo 2 ;;
    *) echo 1 ;;
  esac
}

check_platform() {
  local glibc
  [ "$(uname -sm)" = "Linux x86_64" ] || refuse "ttnn has wheels for Linux x86_64 only; this is $(uname -sm)"
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || glibc="another C library"
  printf '%s\n' "glibc 2.34" "$glibc" | sort -VC || refuse "ttnn's wheels need glibc 2.34 or newer; this system has $glibc"
}

# Prints version and real path of an interpreter, separated by a tab; fails if it does not run. The version names what makes
# an interpreter unusable: "pypy 3.10", "3.12 without venv".
describe_python() {
  "$1" -c 'import importlib.util, os, sys
kind = sys.implementation.name.replace("cpython", "")
venv = "" if importlib.util.find_spec("ensurepip") else "without venv"
print("{} {}.{} {}".format(kind, *sys.version_info[:2], venv).strip() + "\t" + os.path.realpath(sys.executable))' </dev/null 2>/dev/null
}

# Prints why the interpreter with this description is unusable; nothing if it is usable.
fault_of_python() {
  case ${1%$'\t'*} in
    3.12 | 3.10) ;;
    "") echo "does not run as Python 3" ;;
    *) echo "is Python ${1%$'\t'*}" ;;
  esac
}

pyenv_versions() {
  echo "${PYENV_ROOT:-$(pyenv root 2>/dev/null || echo "${HOME:-}/.pyenv")}/versions"
}

# Lists candidate interpreters, one path per line: PATH (all hits: a pyenv shim may hide a real one), pyenv, uv.
list_pythons() {
  local name
  for name in "${python_names[@]}"; do type -aP "$name" || true; done
  compgen -G "$(pyenv_versions)/*/bin/python" || true
  for name in 3.12 3.10; do uv python find --system "$name" 2>/dev/null || true; done
}

# Prints the interpreter to use: $PYTHON if that is set, else the first 3.12 found, else the first 3.10.
find_python() {
  local candidate description fault fallback="" tried=""
  if [ -n "${PYTHON:-}" ]; then
    description=$(describe_python "$PYTHON") || true
    fault=$(fault_of_python "$description")
    [ -z "$fault" ] || refuse "PYTHON=$PYTHON $fault; ttnn has wheels for Python 3.12 and 3.10 only"
    echo "${description#*$'\t'}"
    return
  fi
  while read -r candidate; do
    description=$(describe_python "$candidate") || true
    fault=$(fault_of_python "$description")
    case $fault,${description%$'\t'*} in
      ,3.12) echo "${description#*$'\t'}" && return ;;
      ,3.10) fallback=${fallback:-${description#*$'\t'}} ;;
      *) tried+=$'\n'"  $candidate $fault" ;;
    esac
  done < <(list_pythons)
  [ -n "$fallback" ] || refuse "found no Python 3.12 or 3.10, and ttnn has wheels for no other; install one or set PYTHON to it.
Searched: \$PYTHON (not set); PATH (${python_names[*]}); pyenv ($(pyenv_versions)); uv ($(type -P uv || echo "not installed"))$tried"
  echo "$fallback"
}

# Prints the lock of environment $1: requirements-NAME.lock for .venv-NAME where it exists, else the common one.
lock_of() {
  local own=$root/requirements${1##*/.venv}.lock
  if [ -f "$own" ]; then echo "$own"; else echo "$root/requirements.lock"; fi
}

# Prints a hash of everything that determines environment $1 except its extras. Its path counts: environments cannot be moved.
environment_stamp() {
  {
    describe_python "$1/bin/python" | cut -f 1
    echo "$1"
    sed '/^\[tool\./,$d' "$root/pyproject.toml" # the rest configures tools and packaging
    cat "$(lock_of "$1")"
  } | sha256sum
}

# Prints the extras that environment $1 was created with, each followed by a comma; nothing if its creation was interrupted.
extras_of() {
  sed -n 2p "$1/.ssinghal-stamp" 2>/dev/null || true
}

# Succeeds if environment $1 holds at least the extras $2.
is_current() {
  local extra has
  [ -f "$1/.ssinghal-stamp" ] && [ "$(sed -n 1p "$1/.ssinghal-stamp")" = "$(environment_stamp "$1")" ] || return
  has=,$(extras_of "$1")
  case $has in *,device,*) has+=virtual, ;; esac
  case $has in *,ultralytics,*) has+=capture, ;; esac
  for extra in ${2//,/ }; do
    case $has in *",$extra,"*) ;; *) return 1 ;; esac
  done
  [ -z "${PYTHON:-}" ] || [ "$(describe_python "$1/bin/python")" = "$(describe_python "$PYTHON")" ]
}

# make_environment .venv device,dev: installs this package with at least those extras into $root/.venv, which is reused while
# its stamp matches. Existing extras are kept when others are added.
# The stamp is written last, so an interrupted installation starts again from scratch.
make_environment() {
  local venv=$root/$1 extras=$2
  [ -z "${PYTHON:-}" ] || find_python >/dev/null # reject an unusable $PYTHON even where the environment exists
  is_current "$venv" "$extras" && return
  exec 9<"$root/pyproject.toml"
  flock 9 # of two concurrent runs, one installs and the other waits
  is_current "$venv" "$extras" || install_environment "$venv" "$extras"
  exec 9<&-
}

# Prints what an installation with these extras costs, measured on two cores with pip's cache filled.
describe_extras() {
  case ,$1, in
    *,capture,* | *,ultralytics,*) echo "ttnn, torch and the packages of models, 7 GB, 3 to 5 minutes" ;;
    *,device,*) echo "ttnn and torch, 6.3 GB, about 3 minutes" ;;
    *,virtual,*) echo "ttnn without torch, 0.7 GB, about 1 minute (--torch adds torch)" ;;
    *) echo "a few packages, less than a minute" ;;
  esac
}

# Prints the pins of lock $1 that an environment with the extras $2 needs: the comment that ends a line names its extras.
pins_of() {
  sed -nE "/# ([a-z,]*,)?(base${2:+|${2//,/|}})(,|$)/p" "$1"
}

# install_packages .venv extras: of each package the archives whose hashes the lock has; nothing is resolved, nothing built.
# LOCK_HASHES=no is for an index with builds of its own, such as torch for CPUs: versions of the lock, whatever their archives.
install_packages() {
  local venv=$1 extras=$2 lock pins
  local pip=("$venv/bin/python" -m pip install)
  lock=$(lock_of "$venv")
  pins=$venv/requirements.txt
  if [ "${LOCK_HASHES:-yes}" = no ]; then
    sed -E 's/ --hash=[^ ]*//g; s/ #.*//' "$lock" >"$pins"
    pip+=(--constraint "$pins")
    "${pip[@]}" setuptools && "${pip[@]}" --no-build-isolation --editable "$root${extras:+[$extras]}"
  else
    pins_of "$lock" "$extras" >"$pins"
    "${pip[@]}" --require-hashes --no-deps --only-binary :all: --requirement "$pins" &&
      "${pip[@]}" --no-deps --no-index --no-build-isolation --editable "$root${extras:+[$extras]}"
  fi
}

install_environment() {
  local venv=$1 extras=$2 had python
  for had in $(extras_of "$venv" | sed 's/,/ /g'); do
    case ,$extras, in *",$had,"*) ;; *) extras+=${extras:+,}$had ;; esac
  done
  if [ -f "$venv/pyvenv.cfg" ] && ! grep -q "^prompt = .*ssinghal" "$venv/pyvenv.cfg"; then
    refuse "$venv was not created by this script, which needs that path; move it away first"
  fi
  check_platform
  python=$(find_python)
  echo "Installing into $venv with $python: $(describe_extras "$extras")" >&2
  rm -rf "$venv"
  "$python" -m venv --prompt ssinghal "$venv"
  if ! install_packages "$venv" "$extras" >&2; then
    echo "${0##*/}: pip could not install into $venv (its reason is above); no test was run" >&2
    exit 1
  fi
  printf '%s\n' "$(environment_stamp "$venv")" "$extras," >"$venv/.ssinghal-stamp"
}

# The tests of the report page drive Debian's Chromium.
need_chromium() {
  local install=(apt-get install --yes --no-install-recommends chromium)
  type -P chromium >/dev/null && return
  if [ "$EUID" != 0 ] || ! type -P apt-get >/dev/null; then
    refuse "the tests of the report's page need chromium; as root: apt-get update && ${install[*]}"
  fi
  echo "Installing chromium" >&2
  { apt-get update && "${install[@]}"; } >&2 || refuse "apt-get could not install chromium (its reason is above)"
}
