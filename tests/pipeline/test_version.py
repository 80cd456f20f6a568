"""The version of the judge: all that it runs, and nothing of what shows its verdicts."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from support.built_runs import good_run
from upheaval_pipeline.packages import files_of_packages, folder_of
from upheaval_pipeline.version import JAVA, JUDGE, READER, files_of_version, java_files, judge_version, reader_version

LOADED = """
import json, sys
from upheaval.checkers.judge import verify_run
from upheaval_pipeline import run_parts
verify_run(sys.argv[1])
print(json.dumps([m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]))
"""


def test_whatever_a_judge_imports_is_of_its_version(tmp_path: Path) -> None:
    good_run(40).write(tmp_path / "run")
    command = [sys.executable, "-c", LOADED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours = {path for path, _ in files_of_packages()}
    loaded = {Path(name) for name in json.loads(done.stdout)} & ours
    assert len(loaded) > 50
    assert loaded <= {*files_of_version(JUDGE), *files_of_version(READER)}


def test_pages_and_commands_are_not_of_it() -> None:
    files = {*files_of_version(JUDGE), *files_of_version(READER)}
    upheaval, pipeline = folder_of("upheaval"), folder_of("upheaval_pipeline")
    assert {upheaval / "checkers" / "table.py", pipeline / "tables.py"} <= files
    assert set((folder_of("upheaval_node") / "protocol").glob("*.json")) <= files
    others = [upheaval / "cli" / "main.py", pipeline / "views.py", pipeline / "question_page.py"]
    assert all(path.is_file() and path not in files for path in others)


def test_what_reads_rows_makes_no_verdict_void() -> None:
    judge, reader = set(files_of_version(JUDGE)), set(files_of_version(READER))
    pipeline = folder_of("upheaval_pipeline")
    assert [path for path in judge if path.is_relative_to(pipeline)] == []
    assert {pipeline / "run_parts.py", pipeline / "recorded.py", pipeline / "manifest_rows.py"} <= reader
    assert judge_version() != reader_version()


def test_what_ingests_imports_neither_what_runs_clusters_nor_pages() -> None:
    code = "import sys; from upheaval_pipeline import campaigns, ingest, ingest_command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"upheaval.checkers.judge", "upheaval_pipeline.tables"} <= {*done.stdout.split()}
    assert {"upheaval.runtimes", "upheaval.campaign.seed", "upheaval.ui", "jinja2"} & {*done.stdout.split()} == set()


def test_java_classes_that_judge_are_of_its_version() -> None:
    names = {path.name for path in java_files(JAVA)}
    assert {"Replay.java", "AskMembers.java"} <= names
    whole = hashlib.sha256()
    for path in (*files_of_version(JUDGE), *java_files(JAVA)):
        whole.update(path.read_bytes() + b"\0")
    assert judge_version() == whole.hexdigest()
