"""The committed message modules are what the generator makes of the tables."""

from generate_messages import ROOT, generated_modules, main


def test_regenerating_gives_the_committed_modules() -> None:
    modules = generated_modules()
    assert len(modules) == 5
    for path, text in modules.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_no_message_module_exists_without_a_table() -> None:
    present = set((ROOT / "node" / "upheaval_node" / "protocol").glob("*_messages.py"))
    assert present == set(generated_modules())


def test_the_check_mode_accepts_the_committed_modules() -> None:
    assert main(["--check"]) == 0
