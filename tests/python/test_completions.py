"""`pycandle completions` in the shells themselves, and `pycandle man` through groff."""

from __future__ import annotations

import re
import subprocess

import pytest

from pycandle.recording.cli import parser

TRY_IN_BASH = """
source "$1"
for line in "${@:2}"; do
  read -ra COMP_WORDS <<< "$line"
  if [[ $line == *" " ]]; then COMP_WORDS+=(""); fi
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _pycandle
  echo "${COMPREPLY[*]}"
done
"""
# A line as typed when Tab is pressed, and the words that complete its last one.
TYPED = {
    "pycandle verif": {"verify"},
    "pycandle weights ex": {"extract"},
    "pycandle weights extract --dty": {"--dtype"},
    "pycandle verify --weights int": {"int8", "int4"},
    "pycandle report --format ": {"html", "md", "json"},
    "pycandle verify --backend ": {"c", "cpu", "reference"},
    "pycandle record --taps ": {"modules", "all", "none"},
    "pycandle completions ": {"bash", "zsh", "fish"},
    "pycandle bench-runn": set(),  # a hidden command
}


@pytest.fixture
def script(pycandle, tmp_path):
    def write(shell: str):
        path = tmp_path / f"completions.{shell}"
        path.write_text(pycandle("completions", shell).stdout)
        return path

    return write


def run(*command: object) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_bash_completes_commands_options_and_values(script, tmp_path) -> None:
    tried = run("bash", "--norc", "-c", TRY_IN_BASH, "bash", script("bash"), *TYPED)
    assert [set(line.split()) for line in tried.split("\n")[: len(TYPED)]] == list(TYPED.values())


def test_bash_completes_files_where_nothing_is_listed(script, tmp_path) -> None:
    (tmp_path / "model_manifest.json").touch()
    tried = run(
        "bash", "--norc", "-c", TRY_IN_BASH, "bash", script("bash"), f"pycandle verify {tmp_path}/mod"
    )
    assert tried.strip() == f"{tmp_path}/model_manifest.json"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_of_the_recorder_is_completed(shell: str, script) -> None:
    text = script(shell).read_text()
    names = [name for action in parser()._actions for name in action.option_strings if name.startswith("--")]
    assert len(names) > 10
    for name in names:
        wanted = rf"-l {name[2:]}\b" if shell == "fish" else rf"{name}\b"
        assert re.search(wanted, text), name


def test_the_manual_page_describes_every_command_and_option(pycandle) -> None:
    page = pycandle("man").stdout.replace("\\-", "-")
    for command in ("verify", "weights extract", "record", "completions"):
        assert f".SS pycandle {command}\n" in page
        for option in re.findall(r"--[a-z][a-z-]+", pycandle(*command.split(), "--help").stdout):
            assert option in page, option


def test_another_shell_is_refused_with_those_there_are(pycandle) -> None:
    refused = pycandle("completions", "tcsh", status=2)
    assert "bash" in refused.stderr and "fish" in refused.stderr


@pytest.mark.full
def test_fish_completes_the_same(script) -> None:
    path = script("fish")
    for line, words in TYPED.items():
        tried = run("fish", "-c", f"source {path}; complete -C '{line}'")
        assert {one.split("\t")[0] for one in tried.splitlines()} == words, line


@pytest.mark.full
def test_zsh_completes_the_same(script, tmp_path) -> None:
    """zsh completes only at a terminal: zpty is one."""
    lines = {line: words for line, words in TYPED.items() if len(words) == 1}
    typed = "\n".join(f"zpty -n -w z '{line}'$'\\t'; sleep 1; zpty -n -w z $'\\x15'" for line in lines)
    driver = tmp_path / "driver.zsh"
    driver.write_text(
        "zmodload zsh/zpty\nzpty z zsh -f -i\n"
        f"zpty -w z 'TERM=dumb; autoload -Uz compinit; compinit -u -d {tmp_path}/dump; source {script('zsh')}'\n"
        f"sleep 4\n{typed}\nsleep 1\nzpty -r z out; while zpty -rt z more; do out+=$more; done; print -r -- $out\n"
    )
    shown = run("zsh", "-f", driver)
    for line, words in lines.items():
        assert " ".join([*line.split()[:-1], *words]) in shown, line


@pytest.mark.full
def test_groff_takes_the_manual_page_without_a_warning(pycandle, tmp_path) -> None:
    page = tmp_path / "pycandle.1"
    page.write_text(pycandle("man").stdout)
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    assert "…" in done.stdout  # as its number: groff needs no preconv
    assert "pycandle verify" in re.sub(".\b", "", re.sub("\x1b\\[[0-9;]*m", "", done.stdout))
