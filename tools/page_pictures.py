"""Draw pages with chromium at three widths, light and dark: `python tools/page_pictures.py FOLDER PAGE.html ..`

A picture is of the first screen; with `--whole` of everything below it too.
"""

import argparse
import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / name) for name in ("node", "harness", "chaos", "tests")]

from support.browser import Browser  # noqa: E402 - found by the path above

SIZES = ((1400, 1000), (800, 1000), (400, 850))


def take(browser: Browser, page: Path, folder: Path, *, is_whole: bool) -> list[Path]:
    """Pictures of one page, named after it, its widths and colours."""
    taken = []
    for width, height in SIZES:
        for dark in (False, True):
            browser.open(page, width=width, height=height, dark=dark)
            if is_whole:
                browser.open(page, width=width, height=browser.value("document.body.scrollHeight"), dark=dark)
            picture = folder / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png"
            picture.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
            taken.append(picture)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("pages", type=Path, nargs="+", help="pages of `upheaval report`")
    parser.add_argument("--whole", action="store_true", help="the whole page")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        for page in options.pages:
            for picture in take(browser, page.resolve(), options.folder, is_whole=options.whole):
                print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
